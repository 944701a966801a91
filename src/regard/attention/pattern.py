"""The attention pattern: the attention weights of all heads, computed only when they are read.

A `Pattern` has the shape of the attention weights but stores only the arguments of `attend`. Indexing it computes the
selected weights exactly, one block of queries at a time, so that memory grows linearly with the number of tokens. The
weights are those before dropout, in float32, or in float64 if the input is float64 or its scores overflow float32.
"""

from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.ask import NOTHING, Ask, Reduce, Summary, Top
from regard.attention.call import Call
from regard.attention.grid.grid import Grid, Tile, divisors
from regard.attention.grid.selection import Index, Selection
from regard.attention.masks import Mask
from regard.attention.normalise.normaliser import Normaliser
from regard.attention.normalise.softmax import Softmax
from regard.attention.precision import without_autocast
from regard.attention.progress import ProgressCallback, progress_callback
from regard.attention.representation import type_name
from regard.attention.scores.dot import ScaledDot
from regard.attention.scores.score import Score
from regard.attention.stages import on_device
from regard.attention.statistics.choose import summary_of
from regard.attention.steps import Steps
from regard.attention.tensor_protocol import ThroughDense
from regard.attention.weights import (
    context_of,
    scores_of,
    sum_over_queries,
    vectors_of,
    weighted_sum,
    weights_and_keep,
    weights_of,
)

Statistic = TypeVar("Statistic")

DENSE_BYTES = 2**32
"""The default limit of `dense()`, in bytes: 4 GiB."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Pattern(ThroughDense):
    """The attention weights [batch heads queries keys] of one call of `attend`, computed when they are read.

    Index a pattern like a tensor, by ints, slices with a positive step, `...` and at most one list of positions.
    numpy.asarray(pattern), torch functions, operators and tensor methods work too; they compute all weights, by
    `dense()`. Weights and statistics have gradients if query or key require them.

    Attributes:
        call: the arguments of `attend`, from which the weights are computed.
        statistics: the statistics that were computed together with the context, so that the methods need not compute
            them again; None = no statistics.

    >>> import torch
    >>> from regard import attend, Causal
    >>> pattern = attend(*torch.eye(4).expand(3, 1, 2, 4, 4), mask=Causal()).pattern
    >>> pattern
    Pattern(batch=1, heads=2, queries=4, keys=4, mask=Causal())
    >>> pattern[0, 1, 2]
    tensor([0.2741, 0.2741, 0.4519, 0.0000])
    """

    call: Call
    statistics: Summary | None = None

    # Properties: the arguments of attend, and the shape of the weights

    @property
    def query(self) -> Float[Tensor, "query_batch heads queries d_query"]:
        """The queries given to `attend`."""
        return self.call.query

    @property
    def key(self) -> Float[Tensor, "key_batch key_heads keys d_key"]:
        """The keys given to `attend`."""
        return self.call.key

    @property
    def value(self) -> Float[Tensor, "value_batch key_heads keys d_value"]:
        """The values given to `attend`."""
        return self.call.value

    @property
    def grid(self) -> Grid:
        """The numbers of batch items, heads, queries and keys of the weights."""
        return self.call.grid

    @property
    def score(self) -> Score:
        """The score given to `attend`."""
        return self.call.score

    @property
    def mask(self) -> Mask | None:
        """The mask given to `attend`; None = every query may attend to every key."""
        return self.call.mask

    @property
    def normalise(self) -> Normaliser:
        """The normaliser given to `attend`."""
        return self.call.normalise

    @property
    def shape(self) -> torch.Size:
        """The shape of the attention weights: [batch heads queries keys]."""
        return self.grid.shape

    @property
    def n_heads(self) -> int:
        """The number of heads."""
        return self.grid.heads

    @property
    def ndim(self) -> int:
        """The number of axes of the weights, which is 4."""
        return 4

    @property
    def dtype(self) -> torch.dtype:
        """The data type of the attention weights.

        float64 if the input is float64 or the scores overflow float32; else float32.
        """
        return self.call.weights_dtype

    @property
    def device(self) -> torch.device:
        """The device on which the weights are computed."""
        return self.call.device

    def __len__(self) -> int:
        return self.grid.batch

    def to(self, *target: Any, **options: Any) -> "Pattern | Tensor":
        """Return the pattern on another device; with a data type, return all weights as a tensor of this type.

        The arguments are those of `torch.Tensor.to`. The package accelerate calls `to` for outputs of offloaded models.
        """
        # PyTorch's own parser of these arguments; its other results, such as non_blocking, are not used
        device, dtype, *_ = torch._C._nn._parse_to(*target, **options)
        if device is None or dtype is not None:
            return self.dense().to(*target, **options)
        self.call.check_tensors_unchanged()
        names = ("query", "key", "value", "score", "mask", "normalise")
        call = self.call.changed(**{name: on_device(getattr(self.call, name), device) for name in names})
        return replace(self, call=call, statistics=on_device(self.statistics, device))

    def __repr__(self) -> str:
        stages = ("mask", self.mask, None), ("score", self.score, ScaledDot()), ("normalise", self.normalise, Softmax())
        named = [f"{name}={stage!r}" for name, stage, default in stages if stage != default]
        return f"Pattern({', '.join([str(self.grid), *named])})"

    # Methods that compute the weights, the scores, or the dot products of queries and keys

    def __getitem__(self, index: Index) -> Float[Tensor, "..."]:
        selection = Selection.of(index, self.grid)
        return selection.squeezed(weights_of(self.call, selection.tile))

    def dense(self, max_bytes: int = DENSE_BYTES) -> Float[Tensor, "batch heads queries keys"]:
        """Return all weights as one tensor.

        Raises:
            ValueError: the tensor would take more than `max_bytes`; index the pattern or compute a statistic instead.
        """
        size = self.shape.numel() * self.dtype.itemsize
        if size > max_bytes:
            raise ValueError(
                f"all weights of {self!r} take {size:,} bytes ({size / 2**30:,.1f} GiB), "
                f"more than max_bytes={max_bytes:,}; "
                "ask for a part (pattern[batch, head, query]), .top(8), .received() or .pooled(512, 512), "
                f"or allow it with dense(max_bytes={size})."
            )
        return weights_of(self.call, self.grid.whole())

    def scores(self, *index: Index) -> Float[Tensor, "..."]:
        """Return the scores before the mask, scaled and with the bias added.

        Args:
            index: as in `pattern[index]`: scores(0, 1) returns the scores of batch item 0 and head 1, and scores()
                returns all scores.
        """
        selection = Selection.of(index or (...,), self.grid)
        return selection.squeezed(scores_of(self.call, selection.tile))

    def steps(self, batch: int, head: int, query: int | slice = slice(None)) -> Steps:
        """Return every intermediate result of one head of one batch item: products, scores, weights and context.

        The products are those of queries and keys; for a score that is not a `ScaledDot`, they are the scores.

        Args:
            query: the index of one query, or a slice of queries.
        """
        selection = Selection.of((batch, head, query), self.grid)
        call, tile = self.call, selection.tile
        queries, keys = vectors_of(call, call.query, tile, tile.queries), vectors_of(call, call.key, tile, tile.keys)
        values = vectors_of(call, call.value, tile, tile.keys)
        scores = scores_of(call, tile)
        weights, keep = weights_and_keep(call, tile)
        with without_autocast(call.device):
            products = queries @ keys.mT if isinstance(self.score, ScaledDot) else scores
            context = weighted_sum(weights, keep, values)
            weighted_values = weights[..., None] * values[:, :, None]
        return Steps(
            query=selection.squeezed(queries),
            key=keys[0, 0],
            value=values[0, 0],
            products=selection.squeezed(products),
            scores=selection.squeezed(scores),
            masked=selection.squeezed(scores if keep is None else scores.masked_fill(~keep, -torch.inf)),
            weights=selection.squeezed(weights),
            weighted_values=selection.squeezed(
                weighted_values if keep is None else weighted_values.masked_fill(~keep[..., None], 0)
            ),
            context=selection.squeezed(context),
        )

    def weights(self, tile: Tile) -> Float[Tensor, "batch heads queries keys"]:
        """Return the attention weights of a tile (block of the weights), normalised over all keys of the sequence.

        `pattern[index]` returns the same weights, given an index in place of a tile. A backward pass recomputes the
        weights, one block of queries at a time.

        Args:
            tile: a part of `pattern.grid`, such as pattern.grid.whole().part(queries=range(8)).
        """
        return weights_of(self.call, tile)

    def keep(self, tile: Tile) -> Bool[Tensor, "#batch #heads #queries #keys"] | None:
        """Return the boolean mask of a tile (block of the weights): True where the query may attend to the key.

        The mask broadcasts to the shape of the tile. None = every query of the tile may attend to every key.
        """
        return self.call.keep(tile)

    # Methods that compute statistics, in memory that grows linearly with the number of tokens

    def received(self) -> Float[Tensor, "batch heads keys"]:
        """Return how much attention each key receives: the sum of its weights over all queries."""
        if self.statistics is not None and self.statistics.received is not None:
            return self.statistics.received
        return not_none(self.answer(replace(NOTHING, received=True)).received)

    def entropy(self) -> Float[Tensor, "batch heads queries"]:
        """Return the entropy of each query's weights, in nats: 0 = all weight on one key, log(keys) = equal weights."""
        if self.statistics is not None and self.statistics.entropy is not None:
            return self.statistics.entropy
        return not_none(self.answer(replace(NOTHING, entropy=True)).entropy)

    def top(self, n: int) -> Top:
        """Return, for each query, the `n` keys with the largest weights, and these weights, largest first.

        Of equal weights, the weight on the lowest key index comes first. If a query may attend to fewer than `n` keys,
        the remaining entries have key index -1 and weight 0.
        """
        # made before the stored keys are returned, because `Ask` raises an error if n is invalid
        ask = replace(NOTHING, top=n)
        if self.statistics is not None and self.statistics.top is not None and n <= self.statistics.top.keys.shape[-1]:
            return self.statistics.top.resized(n)
        return not_none(self.answer(ask).top)

    def pooled(self, rows: int, columns: int, reduce: Reduce = "mean") -> Float[Tensor, "batch heads rows columns"]:
        """Return the weights downsampled to a matrix of `rows` × `columns` entries, for each head.

        Args:
            reduce: each entry is the "mean", "max" or "sum" of the weights in one block of queries × keys.
        """
        stored = self.statistics
        if stored is not None and (stored.ask.pooled, stored.ask.reduce) == ((rows, columns), reduce):
            return not_none(stored.pooled)
        return not_none(self.answer(replace(NOTHING, pooled=(rows, columns), reduce=reduce)).pooled)

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
        """Compute the weights once, and return several statistics of them; `Ask` explains the arguments.

        Raises:
            ValueError, TypeError: the errors of `Ask` and of `answer`.

        >>> import torch
        >>> from regard import attend, Causal
        >>> pattern = attend(*torch.eye(4).expand(3, 1, 2, 4, 4), mask=Causal()).pattern
        >>> summary = pattern.summary(top=1)
        >>> summary
        Summary(received, entropy, distance, first, top)
        >>> summary.top.keys[0, 0].flatten()
        tensor([0, 1, 2, 3])
        """
        ask = Ask(received=received, entropy=entropy, distance=distance, first=first, own=own, previous=previous)
        return self.answer(replace(ask, groups=groups, top=top, pooled=pooled, reduce=reduce))

    def answer(self, ask: Ask, report: ProgressCallback | None = None) -> Summary:
        """Return the statistics that `ask` requests; the weights are computed only once for all of them.

        Args:
            report: called as report(done, total) with the amount of work done and the total amount. None = the callback
                set by `report_to`, or else a progress bar on the terminal if the computation takes more than two
                seconds.

        Raises:
            ValueError: `ask.pooled` or `ask.groups` does not fit the numbers of queries and keys; or `ask.entropy` is
                True, and weights may be negative, so that they have no entropy.
        """
        with progress_callback(report) as callback:
            return summary_of(self.call, ask, callback)

    # Methods that multiply the weights by values or by a vector

    def apply(
        self, value: Float[Tensor, "value_batch value_heads keys d"], dropout: float = 0.0
    ) -> Float[Tensor, "batch heads queries d"]:
        """Return weights @ value: the context of each query, for other values than those given to `attend`.

        A backward pass recomputes the weights, one block of queries at a time, instead of storing them.

        Args:
            value: one vector for each key. A batch of 1 is broadcast. If `value` has fewer heads than the pattern, each
                head of `value` is shared by a group of query heads.
            dropout: the probability with which a weight is set to 0; the other weights are divided by 1 - dropout.

        Raises:
            ValueError: the keys, batch or heads of `value` do not fit the pattern.
            TypeError: `value` is not a tensor of floats.
        """
        if not isinstance(value, Tensor):
            raise TypeError(f"value is {type_name(value)}; apply takes a tensor, and torch.as_tensor makes one.")
        if not value.is_floating_point():
            raise TypeError(f"value has dtype {value.dtype}; apply takes floats; convert whole numbers with .float().")
        fits = value.ndim == 4 and value.shape[0] in (1, self.grid.batch) and value.shape[2] == self.grid.keys
        if not fits or value.shape[1] < 1 or self.grid.heads % value.shape[1]:
            raise ValueError(
                f"value of shape {list(value.shape)} with a pattern of {self.grid}; it needs a value for each key, "
                f"a batch of 1 or {self.grid.batch} and a number of heads among {divisors(self.grid.heads)}."
            )
        return context_of(self.call, dropout, value)

    def back(self, vector: Float[Tensor, "#batch #heads queries"]) -> Float[Tensor, "batch heads keys"]:
        """Return vector @ weights: for each key j, the sum over the queries i of vector[i] · weights[i, j].

        Attention rollout applies this product to one layer after the other, from the last to the first. A backward
        pass recomputes the weights, one block of queries at a time.

        Raises:
            ValueError: `vector` does not broadcast to [batch heads queries].

        Source: Abnar & Zuidema 2020, section 3.
        """
        if vector.ndim != 3 or vector.shape[2] != self.grid.queries or not self.grid.admits(vector[..., None]):
            raise ValueError(
                f"vector of shape {list(vector.shape)} with a pattern of {self.grid}; it needs a number for each "
                f"query, [batch heads queries], where batch and heads may be 1."
            )
        return sum_over_queries(self.call, vector)


def not_none(statistic: Statistic | None) -> Statistic:
    assert statistic is not None
    return statistic
