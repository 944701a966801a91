"""The attention pattern: every weight of every head, free until you look at it.

A `Pattern` has the shape of the attention weights but holds only what they follow from: query, key, score, mask and
normaliser. Ask for a part and just that part is computed, exactly, block of queries by block of queries, so that memory
grows with the length and not with its square. Weights are those before dropout, in float32, or in float64 where the
input is.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.ask import NOTHING, Ask, Reduce, Summary, Top
from regard.attention.gradients import checkpointed
from regard.attention.grid.grid import (
    Grid,
    Positions,
    Tile,
    all_positions,
    as_indices,
    divisors,
    is_symbolic,
    select_positions,
    spans,
)
from regard.attention.grid.selection import Index, Selection
from regard.attention.masks import Mask
from regard.attention.normalise.normaliser import Normaliser
from regard.attention.precision import widest_type, without_autocast
from regard.attention.scores.dot import ScaledDot
from regard.attention.scores.score import Score
from regard.attention.stages import tensors_in
from regard.attention.statistics.choose import engine_for
from regard.attention.statistics.progress import Report, reporting
from regard.attention.statistics.torch.gather import Block, gathered
from regard.attention.steps import Steps
from regard.attention.tensor_protocol import ThroughDense

BLOCK_WEIGHTS = 2**22
"""Weights held at one time while a pattern is gone through: 16 MiB of float32."""

Answer = TypeVar("Answer")

DENSE_BYTES = 2**32
"""The largest pattern that `dense()` builds unless told otherwise: 4 GiB."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Pattern(ThroughDense):
    """The weights [batch heads queries keys] of one attention step, computed when and where they are asked for.

    Indexing takes what indexing a tensor takes: ints, slices, `...` and one list of positions. The result
    carries gradients where query and key do. numpy.asarray(pattern), torch functions, operators and the methods of a
    tensor work too, through `dense()`.

    >>> import torch
    >>> from regard import attend, Causal
    >>> pattern = attend(*torch.eye(4).expand(3, 1, 2, 4, 4), mask=Causal()).pattern
    >>> pattern
    Pattern(batch=1, heads=2, queries=4, keys=4, mask=Causal())
    >>> pattern[0, 1, 2]
    tensor([0.2741, 0.2741, 0.4519, 0.0000])
    """

    query: Float[Tensor, "query_batch heads queries d_query"]
    key: Float[Tensor, "key_batch key_heads keys d_key"]
    value: Float[Tensor, "value_batch key_heads keys d_value"]
    grid: Grid
    score: Score
    mask: Mask | None
    normalise: Normaliser
    known: Summary | None = None
    versions: tuple[int, ...] | None = field(init=False)

    def __post_init__(self) -> None:
        # A compiled program has no versions to read; its own changes to a tensor are not seen.
        object.__setattr__(self, "versions", None if torch.compiler.is_compiling() else self._versions())

    def __getstate__(self) -> tuple[object, ...]:
        return tuple(getattr(self, part.name) for part in fields(self) if part.init)

    def __setstate__(self, state: tuple[object, ...]) -> None:
        self.__init__(*state)  # type: ignore[misc]  # a copied tensor counts its changes anew

    # What it is

    @property
    def shape(self) -> torch.Size:
        """[batch heads queries keys]."""
        return self.grid.shape

    @property
    def n_heads(self) -> int:
        """How many heads there are."""
        return self.grid.heads

    @property
    def ndim(self) -> int:
        """4, as the weights have."""
        return 4

    @property
    def dtype(self) -> torch.dtype:
        """The type of the weights: float32, or float64 where the input is."""
        return torch.promote_types(self.query.dtype, torch.float32)

    @property
    def device(self) -> torch.device:
        """Where the weights are computed."""
        return self.query.device

    def __len__(self) -> int:
        return self.grid.batch

    def __repr__(self) -> str:
        parts = {"mask": self.mask, "score": self.score, "normalise": self.normalise}
        defaults = "None", "ScaledDot()", "Softmax()"
        given = [f"{name}={part!r}" for name, part in parts.items() if repr(part) not in defaults]
        return f"Pattern({', '.join([str(self.grid), *given])})"

    # A part of it, all of it, and the stages before it

    def __getitem__(self, index: Index) -> Float[Tensor, "..."]:
        selection = Selection.of(index, self.grid)
        return selection.squeezed(self.weights(selection.tile))

    def dense(self, max_bytes: int = DENSE_BYTES) -> Float[Tensor, "batch heads queries keys"]:
        """All weights.

        Raises:
            ValueError: the matrix would take more than `max_bytes`; ask for a part, or for a statistic.
        """
        size = self.shape.numel() * self.dtype.itemsize
        if size > max_bytes:
            raise ValueError(
                f"all weights of {self!r} take {size / 2**30:,.1f} GiB, "
                f"past the limit of {max_bytes / 2**30:,.1f} GiB; "
                "ask for a part (pattern[batch, head, query]), .top(8), .received() or .pooled(512, 512), "
                f"or allow it with dense(max_bytes={size})."
            )
        return self.weights(self.grid.whole())

    def scores(self, *index: Index) -> Float[Tensor, "..."]:
        """The scores, scaled and biased, before the mask, of the part that the index names; all without one."""
        selection = Selection.of(index or (...,), self.grid)
        return selection.squeezed(self._scores(selection.tile))

    def steps(self, batch: int, head: int, query: int | slice = slice(None)) -> Steps:
        """Every stage of one head, from the products to the context, for one query or several."""
        selection = Selection.of((batch, head, query), self.grid)
        tile = selection.tile
        queries, keys = self._rows(self.query, tile, tile.queries), self._rows(self.key, tile, tile.keys)
        values = self._rows(self.value, tile, tile.keys)
        scores, (weights, keep) = self._scores(tile), self._weights_and_keep(tile)
        with without_autocast(self.device):
            products = queries @ keys.mT if isinstance(self.score, ScaledDot) else scores
            context = weights @ values
        return Steps(
            query=selection.squeezed(queries),
            key=keys[0, 0],
            value=values[0, 0],
            products=selection.squeezed(products),
            scores=selection.squeezed(scores),
            masked=selection.squeezed(scores if keep is None else scores.masked_fill(~keep, -torch.inf)),
            weights=selection.squeezed(weights),
            weighted_values=selection.squeezed(weights[..., None] * values[:, :, None]),
            context=selection.squeezed(context),
        )

    def weights(self, tile: Tile) -> Float[Tensor, "batch heads queries keys"]:
        """The weights of a tile, each row computed over all keys; a backward pass computes each block again."""

        def part(block: Tile) -> Float[Tensor, "batch heads block keys"]:
            return select_positions(self._weights_and_keep(block)[0], 3, tile.keys)

        rows = [checkpointed(part, block) for block in self._blocks(tile)]
        return torch.cat(rows, dim=2) if rows else self._like().new_zeros(tile.shape)

    def keep(self, tile: Tile) -> Bool[Tensor, "#batch #heads #queries #keys"] | None:
        """True where a query of a tile may attend to a key of it; None where nothing bars any."""
        by_mask = None if self.mask is None else self.mask.keep(tile, self.device)
        by_score = self.score.keep(tile)
        return by_mask if by_score is None else by_score if by_mask is None else by_mask & by_score

    # Statistics, in memory that grows with the length

    def received(self) -> Float[Tensor, "batch heads keys"]:
        """How much attention each key gets: the sum of its weights over all queries."""
        if self.known is not None and self.known.received is not None:
            return self.known.received
        return given(self.answer(replace(NOTHING, received=True)).received)

    def entropy(self) -> Float[Tensor, "batch heads queries"]:
        """How spread out each query's attention is, in nats: 0 on one key, log(keys) when even over all of them."""
        if self.known is not None and self.known.entropy is not None:
            return self.known.entropy
        return given(self.answer(replace(NOTHING, entropy=True)).entropy)

    def top(self, n: int) -> Top:
        """The `n` strongest keys of every query, strongest first; key -1 with weight 0 where fewer are visible."""
        if self.known is not None and self.known.top is not None and n in range(1, self.known.top.keys.shape[-1] + 1):
            return Top(self.known.top.weights[..., :n], self.known.top.keys[..., :n])
        return given(self.answer(replace(NOTHING, top=n)).top)

    def pooled(self, rows: int, columns: int, reduce: Reduce = "mean") -> Float[Tensor, "batch heads rows columns"]:
        """The pattern as a map of rows × columns cells: the mean, largest or sum of the weights in each cell."""
        if self.known is not None and (self.known.ask.pooled, self.known.ask.reduce) == ((rows, columns), reduce):
            return given(self.known.pooled)
        return given(self.answer(replace(NOTHING, pooled=(rows, columns), reduce=reduce)).pooled)

    def summary(
        self,
        *,
        received: bool = True,
        entropy: bool = True,
        distance: bool = True,
        first: bool = True,
        own: bool = False,
        previous: bool = False,
        groups: Bool[Tensor, "groups keys"] | None = None,
        top: int | None = None,
        pooled: tuple[int, int] | None = None,
        reduce: Reduce = "mean",
    ) -> Summary:
        """Several statistics in one pass; the keywords are those of `Ask`.

        Raises:
            ValueError: more strongest keys, or a finer map, than there are keys.

        >>> import torch
        >>> from regard import attend, Causal
        >>> pattern = attend(*torch.eye(4).expand(3, 1, 2, 4, 4), mask=Causal()).pattern
        >>> summary = pattern.summary(top=1)
        >>> summary
        Summary(received, entropy, distance, first, top)
        >>> summary.top.keys[0, 0].flatten()
        tensor([0, 1, 2, 3])
        """
        return self.answer(
            Ask(
                received=received,
                entropy=entropy,
                distance=distance,
                first=first,
                own=own,
                previous=previous,
                groups=groups,
                top=top,
                pooled=pooled,
                reduce=reduce,
            )
        )

    @torch.no_grad()
    def answer(self, ask: Ask, report: Report | None = None) -> Summary:
        """What is asked, in one pass.

        Args:
            report: is told how many weights are done, and of how many; None = a bar on the terminal, if it takes long.

        Raises:
            ValueError: more strongest keys, or a finer map, than there are keys.
        """
        ask.check(self.grid)
        if ask.entropy and self.normalise.signed:
            raise ValueError(
                f"weights by {self.normalise!r} may be negative, so they have no entropy; ask with entropy=False."
            )
        self.check_unchanged()
        engine = engine_for(self)
        with reporting(report) as told:
            if engine is not None:
                return engine.read(self, ask, contexts=False, report=told)[1]
            return gathered(self.blocks(told), self.grid, self._like(), ask)

    # What the weights do

    def apply(
        self, value: Float[Tensor, "value_batch value_heads keys d"], dropout: float = 0.0
    ) -> Float[Tensor, "batch heads queries d"]:
        """weights @ value: what each query reads, for any values at these keys.

        In a backward pass each block of weights is computed again, so that training takes no more memory than this.

        Args:
            value: of one batch item for all, or of each; of one head for each group of heads.
            dropout: the chance that a weight is dropped, the others being scaled up to make up for it.

        Raises:
            ValueError: values of another number of keys, or that cannot be shared out over batch items and heads.
        """
        batch, heads, n_keys = value.shape[:3]
        if n_keys != self.grid.keys or batch not in (1, self.grid.batch) or heads < 1 or self.grid.heads % heads:
            raise ValueError(
                f"value of shape {list(value.shape)} with a pattern of {self.grid}; it needs a value for each key, "
                f"a batch of 1 or {self.grid.batch} and a number of heads among {divisors(self.grid.heads)}."
            )

        def read(tile: Tile, value: Tensor) -> Float[Tensor, "batch heads block d"]:
            weights = F.dropout(self._weights_and_keep(tile)[0], dropout)
            with without_autocast(self.device):
                return (weights @ self._rows(value, tile, tile.keys).to(weights)).to(value.dtype)

        blocks = [checkpointed(read, tile, value, draws=dropout > 0) for tile in self._blocks(self.grid.whole())]
        return torch.cat(blocks, dim=2) if blocks else value.new_zeros(*self.shape[:3], value.shape[-1])

    def back(self, vector: Float[Tensor, "#batch #heads queries"]) -> Float[Tensor, "batch heads keys"]:
        """vector @ weights: how much of what the queries hold comes from each key (one step of attention rollout).

        A backward pass computes each block of weights again, as that of `apply` does.

        Raises:
            ValueError: a vector that does not broadcast to [batch heads queries].

        Source: Abnar & Zuidema 2020, section 3.
        """
        if vector.ndim != 3 or vector.shape[2] != self.grid.queries or not self.grid.admits(vector[..., None]):
            raise ValueError(
                f"vector of shape {list(vector.shape)} with a pattern of {self.grid}; it needs a number for each "
                f"query, [batch heads queries], where batch and heads may be 1."
            )

        def come(tile: Tile, vector: Tensor) -> Float[Tensor, "batch heads keys"]:
            weights = self._weights_and_keep(tile)[0]
            rows = select_positions(vector, 2, tile.queries)[:, :, None].to(weights)
            with without_autocast(self.device):
                return (rows @ weights)[:, :, 0]

        shape = self.grid.batch, self.grid.heads, self.grid.keys
        total = self._like().new_zeros(shape, dtype=widest_type(self.device))
        for tile in self._blocks(self.grid.whole()):
            total = total + checkpointed(come, tile, vector)
        return total.to(self.dtype)

    # How a part is computed

    def blocks(self, report: Report | None = None) -> Iterator[Block]:
        """The whole pattern as consecutive blocks of queries, each over all keys."""
        done = 0
        for tile in self._blocks(self.grid.whole()):
            yield Block(tile, *self._weights_and_keep(tile))
            done += tile.shape.numel()
            if report is not None:
                report(done, self.shape.numel())

    def _blocks(self, tile: Tile) -> Iterator[Tile]:
        keys = all_positions(self.grid.keys)
        if any(map(is_symbolic, (*tile.shape[:3], self.grid.keys))):
            yield tile.part(keys=keys)
            return
        per_query = max(1, len(tile.batch) * len(tile.heads) * self.grid.keys)
        for span in spans(len(tile.queries), max(1, BLOCK_WEIGHTS // per_query)):
            yield tile.part(queries=tile.queries[span.start : span.stop], keys=keys)

    def _weights_and_keep(
        self, tile: Tile
    ) -> tuple[Float[Tensor, "batch heads queries keys"], Bool[Tensor, "#batch #heads #queries #keys"] | None]:
        keep = self.keep(tile)
        with without_autocast(self.device):
            if not self.normalise.across_heads:
                return self.normalise(self._scores(tile), keep, tile), keep
            of_all = tile.part(heads=range(self.n_heads))
            return select_positions(
                self.normalise(self._scores(of_all), self.keep(of_all), of_all), 1, tile.heads
            ), keep

    def _scores(self, tile: Tile) -> Float[Tensor, "batch heads queries keys"]:
        self.check_unchanged()
        query, key = self._rows(self.query, tile, tile.queries), self._rows(self.key, tile, tile.keys)
        with without_autocast(self.device):
            return self.score(query, key, tile)

    def check_unchanged(self) -> None:
        """Refuse to go on where the weights would not be those that were used."""
        if self.versions is not None and not torch.compiler.is_compiling() and self._versions() != self.versions:
            raise ValueError(
                "a tensor that was given to attend() has been changed in place since, so this pattern would not be the "
                "one that was used; clone the tensor before you change it."
            )

    def _rows(
        self, tensor: Float[Tensor, "any_batch any_heads any d"], tile: Tile, positions: Positions
    ) -> Float[Tensor, "batch heads positions d"]:
        """The rows of query, key or value at some positions, for each batch item and head of a tile."""
        group = self.grid.heads // tensor.shape[1]
        heads = tile.heads if group == 1 else as_indices(tile.heads, tensor.device) // group
        rows = select_positions(select_positions(tensor, 2, positions), 1, heads)
        rows = rows.expand(tile.shape[0], -1, -1, -1) if tensor.shape[0] == 1 else select_positions(rows, 0, tile.batch)
        return rows.to(self.dtype)

    def _like(self) -> Float[Tensor, ""]:
        """A tensor of the type and place of the weights."""
        return torch.empty((), dtype=self.dtype, device=self.device)

    def _versions(self) -> tuple[int, ...]:
        """How often each tensor was changed in place; inference tensors do not count it."""
        return tuple([tensor._version for tensor in self.tensors() if not tensor.is_inference()])

    def tensors(self) -> tuple[Tensor, ...]:
        """Every tensor that the weights and contexts follow from."""
        held = tensors_in(self.score) + tensors_in(self.mask) + tensors_in(self.normalise)
        return (self.query, self.key, self.value, *held)


def given(answer: Answer | None) -> Answer:
    """What was asked for, and so is there."""
    assert answer is not None
    return answer
