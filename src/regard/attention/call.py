"""`Call`: the checked arguments of one call of `attend`.

A backend computes the context from a `Call`. A `Pattern` keeps the `Call`, and computes weights when they are read.
"""

from dataclasses import dataclass, field, fields, replace
from inspect import isroutine
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.gradients import are_concrete, need_gradients
from regard.attention.grid.grid import Grid, Tile, divisors
from regard.attention.masks import Mask, as_mask
from regard.attention.masks.mask import keep_of_tile
from regard.attention.normalise.normaliser import Normaliser
from regard.attention.normalise.softmax import Softmax
from regard.attention.representation import type_name
from regard.attention.scores.biases.bias import Bias
from regard.attention.scores.dot import ScaledDot
from regard.attention.scores.score import DotScore, Score
from regard.attention.stages import tensors_in

DTYPES = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})


@dataclass(frozen=True, slots=True, eq=False)
class SoftmaxFormula:
    """The parameters of softmax attention, in the form that the kernels need.

        scores  = softcap · tanh(scale · query · key / softcap) + bias
        weights = softmax(scores / temperature)

    Attributes:
        softcap, bias, sinks: None = not used. A sink is one more score in a head's softmax, which belongs to no key.
        temperature: 0 = all weight on the largest score, shared by ties.
        projection: maps queries and keys to new vectors, and their dot products are the scores; None = queries and
            keys are used unchanged.
        other_score: a score that is not a dot product; scale, softcap, bias and projection are then not used. None =
            the scores are dot products.
    """

    scale: float
    softcap: float | None
    bias: Float[Tensor, "*shape"] | Bias | None
    temperature: float
    sinks: Float[Tensor, " heads"] | None
    projection: DotScore | None = None
    other_score: Score | None = None

    @classmethod
    def of(cls, score: Score, normalise: Normaliser, d_key: int) -> "SoftmaxFormula | None":
        if not isinstance(normalise, Softmax):
            return None
        temperature, sinks = normalise.temperature, normalise.sinks
        if isinstance(score, ScaledDot):
            return cls(score.factor(d_key), score.softcap, score.bias, temperature, sinks)
        if isinstance(score, DotScore):
            return cls(scale=1.0, softcap=None, bias=None, temperature=temperature, sinks=sinks, projection=score)
        return cls(scale=1.0, softcap=None, bias=None, temperature=temperature, sinks=sinks, other_score=score)

    def vectors(
        self,
        query: Float[Tensor, "query_batch heads queries d_query"],
        key: Float[Tensor, "key_batch key_heads keys d_key"],
    ) -> tuple[Float[Tensor, "_ heads queries width"], Float[Tensor, "_ key_heads keys width"]]:
        return (query, key) if self.projection is None else self.projection.as_dot(query, key)


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """The arguments of one call of `attend`, checked to fit together.

    Attributes:
        formula: the parameters of softmax attention, such as scale and bias; None if the normaliser is not softmax.
        tensors: every tensor that the weights or the context depend on: query, key, value, and the tensors in score,
            mask and normaliser.
        is_concrete: whether C code may read the numbers of the tensors from memory; False under torch.compile and vmap,
            for instance (see `gradients.are_concrete`).
        versions: for each tensor in `tensors`, its in-place version counter at the time of the call; None under
            torch.compile.
    """

    query: Float[Tensor, "query_batch heads queries d_query"]
    key: Float[Tensor, "key_batch key_heads keys d_key"]
    value: Float[Tensor, "value_batch key_heads keys d_value"]
    grid: Grid
    score: Score
    mask: Mask | None
    normalise: Normaliser
    formula: SoftmaxFormula | None  # given by `of`, since torch.compile cannot return a formula made in __post_init__
    tensors: tuple[Tensor, ...] = field(init=False)
    is_concrete: bool = field(init=False)
    versions: tuple[int, ...] | None = field(init=False)

    def __post_init__(self) -> None:
        tensors = (self.query, self.key, self.value, *tensors_in(self.score, self.normalise, self.mask))
        object.__setattr__(self, "tensors", tensors)
        object.__setattr__(self, "is_concrete", are_concrete(self.tensors))
        # torch.compile has no version counters, so a compiled program does not notice in-place changes.
        is_compiling = not self.is_concrete and torch.compiler.is_compiling()
        object.__setattr__(self, "versions", None if is_compiling else self.current_versions())

    def __getstate__(self) -> tuple[object, ...]:
        return tuple(getattr(self, argument.name) for argument in fields(self) if argument.init)

    def __setstate__(self, state: tuple[object, ...]) -> None:
        self.__init__(*state)  # type: ignore[misc]  # reads the version counters anew: a copied tensor has its own

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
        """Check the arguments of `attend` and return them as a `Call`."""
        if not isinstance(score, Score):
            raise stage_error("score", score, ScaledDot())
        grid = checked_grid(query, key, value, score)
        mask = as_mask(mask)
        if not isinstance(normalise, Normaliser):
            raise stage_error("normalise", normalise, Softmax())
        score.check(grid)
        if mask is not None:
            mask.check(grid)
        normalise.check(grid)
        score = score.of_type(query)
        formula = SoftmaxFormula.of(score, normalise, key.shape[-1])
        return cls(query, key, value, grid, score, mask, normalise, formula)

    def changed(self, **arguments: Any) -> "Call":
        """Return a copy with other values of query, key, value, score, mask or normalise, which are not checked.

        A new query, key or value must have the shape of the old one. Tensors in a new score must have the data type of
        the query.
        """
        score, normalise = arguments.get("score", self.score), arguments.get("normalise", self.normalise)
        formula = SoftmaxFormula.of(score, normalise, arguments.get("key", self.key).shape[-1])
        return replace(self, **arguments, formula=formula)

    @property
    def weights_dtype(self) -> torch.dtype:
        """The data type of the attention weights: float64 if the input is float64, else float32."""
        return torch.promote_types(self.query.dtype, torch.float32)

    @property
    def device(self) -> torch.device:
        return self.query.device

    @property
    def needs_gradients(self) -> bool:
        return need_gradients(self.tensors)

    @property
    def softmax_formula(self) -> SoftmaxFormula:
        """The parameters of softmax attention (`formula`); only for calls whose normaliser is softmax."""
        assert self.formula is not None
        return self.formula

    def keep(self, tile: Tile) -> Bool[Tensor, "#batch #heads #queries #keys"] | None:
        """Return the boolean mask of a tile (block of the weights), or None if no key of the tile is masked.

        A bias of -∞ in the score also masks a key.
        """
        score_keep = self.score.keep(tile)
        if self.mask is None:
            return score_keep
        mask_keep = keep_of_tile(self.mask, tile, self.device)
        return mask_keep if score_keep is None else mask_keep & score_keep

    def empty(self) -> Float[Tensor, ""]:
        """Return a scalar with the data type and device of the weights, so that `new_zeros` makes tensors like them."""
        return torch.empty((), dtype=self.weights_dtype, device=self.device)

    def current_versions(self) -> tuple[int, ...]:
        # a tensor made in inference mode has no version counter
        return tuple([0 if tensor.is_inference() else tensor._version for tensor in self.tensors])

    def check_tensors_unchanged(self) -> None:
        if self.versions is not None and not torch.compiler.is_compiling() and self.current_versions() != self.versions:
            raise ValueError(
                "a tensor given to attend() was changed in place afterwards, so the weights of that call can no longer "
                "be computed; clone the tensor before you change it."
            )


def checked_grid(query: Tensor, key: Tensor, value: Tensor, score: Score) -> Grid:
    check_tensors(query, key, value)
    try:
        (query_batch, heads, queries, d_query), (key_batch, key_heads, keys, d_key) = query.shape, key.shape
        value_batch, value_heads, values, _ = value.shape
    except RuntimeError:  # a nested tensor of layout torch.strided has no shape; check_each raises ValueError
        check_each(query=query, key=key, value=value)
        raise
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
    batches = [size for size in (query_batch, key_batch, value_batch) if size != 1] or [1]
    if batches[1:] != batches[:-1]:  # the sizes differ
        raise ValueError(
            f"batch sizes do not fit together: query {query_batch}, key {key_batch}, value {value_batch}; "
            "each must be the same or 1."
        )
    if isinstance(heads, Tensor):  # torch.jit.trace makes sizes tensors
        return Grid(int(batches[0]), int(heads), int(queries), int(keys))
    return Grid(batches[0], heads, queries, keys)


def check_tensors(query: Tensor, key: Tensor, value: Tensor) -> None:
    try:
        one_device, dtype = query.device == key.device == value.device, query.dtype
        dense = query.layout is key.layout is value.layout is torch.strided
        one_dtype = dtype is key.dtype is value.dtype and dtype in DTYPES
        if query.ndim == key.ndim == value.ndim == 4 and one_device and one_dtype and dense:
            return
    except AttributeError:
        one_device = True  # one of the three is no tensor; check_each raises TypeError
    tensors = {"query": query, "key": key, "value": value}
    check_each(**tensors)
    attribute = "dtype" if one_device else "device"
    values = ", ".join(f"{name} {getattr(tensor, attribute)}" for name, tensor in tensors.items())
    raise ValueError(f"query, key and value must share one {attribute}: {values}; convert them with .to(…).")


def check_each(**tensors: Tensor) -> None:
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"{name} is {type_name(tensor)}; attend takes tensors, and torch.as_tensor makes one of an array or a "
                "list."
            )
        if tensor.is_nested:
            raise ValueError(
                f"{name} is a nested tensor; attend takes one tensor [batch heads tokens width]; "
                "pad the items to one length, and give their lengths: mask=Padding(lengths)."
            )
        if tensor.layout != torch.strided:
            raise ValueError(
                f"{name} has layout {tensor.layout}; attend takes dense tensors; convert it with .to_dense()."
            )
        if tensor.ndim != 4:
            raise ValueError(
                f"{name} has shape {list(tensor.shape)}; attend takes four axes, [batch heads tokens width]; "
                "add the missing ones with unsqueeze."
            )
        if tensor.dtype not in DTYPES:
            raise ValueError(
                f"{name} has dtype {tensor.dtype}; attend takes float16, bfloat16, float32 or float64; "
                "convert it with .to(…)."
            )


def stage_error(name: str, stage: object, example: Score | Normaliser) -> TypeError:
    # a class or function is named: Softmax, for example, is given in place of Softmax()
    stage_text = type_name(stage) if isinstance(stage, type) or isroutine(stage) else repr(stage)
    return TypeError(f"{name} is {stage_text}; it takes an object such as {example!r}.")
