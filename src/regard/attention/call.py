"""A call of attention: queries, keys and values, and how they become scores, masked scores and weights.

`attend` makes one `Call` of its arguments. A backend computes the context from it; a `Pattern` keeps it and computes
weights and statistics from it when somebody looks.
"""

from dataclasses import dataclass, field, fields

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.formula import Formula
from regard.attention.gradients import need_gradients
from regard.attention.grid.grid import Grid, Tile, divisors
from regard.attention.masks import Mask, as_mask
from regard.attention.normalise.normaliser import Normaliser
from regard.attention.normalise.softmax import Softmax
from regard.attention.representation import type_name
from regard.attention.scores.dot import ScaledDot
from regard.attention.scores.score import Score
from regard.attention.stages import tensors_in


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """The arguments of one call of attention, known to fit together.

    Attributes:
        eager_formula: the formula, computed once; None within torch.compile, and for a normaliser other than softmax.
        tensors: every tensor that the weights and the context follow from.
        versions: how often each tensor had been changed in place when the call was made; None within torch.compile.
    """

    query: Float[Tensor, "query_batch heads queries d_query"]
    key: Float[Tensor, "key_batch key_heads keys d_key"]
    value: Float[Tensor, "value_batch key_heads keys d_value"]
    grid: Grid
    score: Score
    mask: Mask | None
    normalise: Normaliser
    eager_formula: Formula | None = field(init=False)
    tensors: tuple[Tensor, ...] = field(init=False)
    versions: tuple[int, ...] | None = field(init=False)

    def __post_init__(self) -> None:
        compiling = torch.compiler.is_compiling()
        held = tensors_in(self.score) + tensors_in(self.normalise)
        if self.mask is not None:
            held += tensors_in(self.mask)
        # torch.compile cannot return an object that holds another one made after it.
        formula = None if compiling else Formula.of(self.score, self.normalise, self.key.shape[-1])
        object.__setattr__(self, "eager_formula", formula)
        object.__setattr__(self, "tensors", (self.query, self.key, self.value, *held))
        # A compiled program has no versions to read; changes that it makes itself are not noticed.
        object.__setattr__(self, "versions", None if compiling else self.current_versions())

    def __getstate__(self) -> tuple[object, ...]:
        return tuple(getattr(self, part.name) for part in fields(self) if part.init)

    def __setstate__(self, state: tuple[object, ...]) -> None:
        self.__init__(*state)  # type: ignore[misc]  # a copied tensor counts its changes anew

    @classmethod
    def of(
        cls,
        query: Float[Tensor, "query_batch heads queries d_query"],
        key: Float[Tensor, "key_batch key_heads keys d_key"],
        value: Float[Tensor, "value_batch key_heads keys d_value"],
        score: Score,
        mask: Mask | Tensor | None,
        normalise: Normaliser,
    ) -> "Call":
        """Return the call with these arguments; nothing is computed.

        Raises:
            ValueError: shapes, types or devices that do not fit together.
            TypeError: a query, key or value that is no tensor; a score, mask or normaliser of another type.
        """
        if not isinstance(score, Score):
            raise stage_error("score", score, ScaledDot())
        grid = grid_of(query, key, value, score)
        mask = as_mask(mask)
        if not isinstance(normalise, Normaliser):
            raise stage_error("normalise", normalise, Softmax())
        score.check(grid)
        if mask is not None:
            mask.check(grid)
        normalise.check(grid)
        return cls(query, key, value, grid, score.of_type(query), mask, normalise)

    @property
    def dtype(self) -> torch.dtype:
        """The data type of the weights: float32, or float64 where the input is."""
        return torch.promote_types(self.query.dtype, torch.float32)

    @property
    def device(self) -> torch.device:
        """The device on which the weights are computed."""
        return self.query.device

    @property
    def needs_gradients(self) -> bool:
        """Whether a backward pass would reach a tensor of this call."""
        return need_gradients(self.tensors)

    @property
    def formula(self) -> Formula | None:
        """Scale, softcap, bias, temperature and sinks of softmax attention; None for another normaliser."""
        if self.eager_formula is not None:
            return self.eager_formula
        return Formula.of(self.score, self.normalise, self.key.shape[-1])

    @property
    def softmax(self) -> Formula:
        """The formula of a call whose normaliser is known to be softmax."""
        formula = self.formula
        assert formula is not None
        return formula

    def keep(self, tile: Tile) -> Bool[Tensor, "#batch #heads #queries #keys"] | None:
        """Return True where a query of the tile may attend to a key of it, or None if every query may attend to all."""
        by_mask = None if self.mask is None else self.mask.keep(tile, self.device)
        by_score = self.score.keep(tile)
        return by_mask if by_score is None else by_score if by_mask is None else by_mask & by_score

    def empty(self) -> Float[Tensor, ""]:
        """Return an empty tensor with the data type and device of the weights."""
        return torch.empty((), dtype=self.dtype, device=self.device)

    def current_versions(self) -> tuple[int, ...]:
        """Return how often each tensor has been changed in place; tensors of inference mode do not count changes."""
        return tuple([0 if tensor.is_inference() else tensor._version for tensor in self.tensors])

    def check_unchanged(self) -> None:
        """Raise ValueError if a tensor has been changed in place since the call: the weights would be others."""
        if self.versions is not None and not torch.compiler.is_compiling() and self.current_versions() != self.versions:
            raise ValueError(
                "a tensor that was given to attend() has been changed in place since, so this pattern would not be the "
                "one that was used; clone the tensor before you change it."
            )


def grid_of(query: Tensor, key: Tensor, value: Tensor, score: Score) -> Grid:
    """Return the grid of a call; raise unless query, key and value fit together."""
    check_tensors(query, key, value)
    (query_batch, heads, queries, d_query), (key_batch, key_heads, keys, d_key) = query.shape, key.shape
    value_batch, value_heads, values, _ = value.shape
    if d_query == 0:
        raise ValueError("query has width 0; a query needs at least one number to be matched with keys.")
    score.check_widths(d_query, d_key)
    if (key_heads, keys) != (value_heads, values):
        raise ValueError(
            f"key has {key_heads} heads of {keys} tokens and value has {value_heads} heads of "
            f"{values} tokens; every key needs its value, so they must be the same."
        )
    if heads == 0:
        raise ValueError("query has 0 heads; attention needs at least one.")
    if key_heads == 0 or heads % key_heads:
        raise ValueError(
            f"query has {heads} heads and key has {key_heads}; each key head serves a group of query "
            f"heads, so it must be one of {divisors(heads)}."
        )
    batches = [size for size in (query_batch, key_batch, value_batch) if size != 1]
    if batches[1:] != batches[:-1]:
        raise ValueError(
            f"batch sizes do not fit together: query {query_batch}, key {key_batch}, value {value_batch}; "
            "each must be the same or 1."
        )
    return Grid(batches[0] if batches else 1, heads, queries, keys)


def check_tensors(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Raise unless query, key and value are floating-point tensors of four axes, one data type and one device."""
    try:
        one_device = query.device == key.device == value.device
        one_dtype = query.dtype == key.dtype == value.dtype
        if query.ndim == key.ndim == value.ndim == 4 and query.is_floating_point() and one_device and one_dtype:
            return
    except AttributeError:
        one_device = True  # one of the three is no tensor
    tensors = {"query": query, "key": key, "value": value}
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"{name} is {type_name(tensor)}; attend takes tensors, and torch.as_tensor makes one of an array or a "
                "list."
            )
        if tensor.ndim != 4:
            raise ValueError(
                f"{name} has shape {list(tensor.shape)}; attend takes four axes, [batch heads tokens width]; "
                "add the missing ones with unsqueeze."
            )
        if not tensor.is_floating_point():
            raise ValueError(f"{name} has dtype {tensor.dtype}; attend takes floating-point numbers.")
    attribute = "dtype" if one_device else "device"
    values = ", ".join(f"{name} {getattr(tensor, attribute)}" for name, tensor in tensors.items())
    raise ValueError(f"query, key and value must share one {attribute}: {values}; convert them with .to(…).")


def stage_error(name: str, stage: object, example: Score | Normaliser) -> TypeError:
    """Return the error for a score or normaliser that is none."""
    return TypeError(f"{name} is {stage!r}; it takes an object such as {example!r}.")
