"""Checks of the arguments of attention layers."""

from numbers import Integral

import torch
from torch import Tensor, nn

from regard.attention.grid.grid import divisors
from regard.attention.layers.key_value import KeyValue
from regard.attention.positions.rotary import Rotary
from regard.attention.representation import type_name


def check_tokens(layer: nn.Module, name: str, tokens: Tensor | KeyValue | None, d_model: int) -> None:
    """Raise an error unless tokens are vectors of the right shape. A `KeyValue` is not checked: the layer has made it.

    Raises:
        TypeError: the tokens are not a tensor, or not a tensor of floats, or float64 for parameters of another type.
        ValueError: the shape is not [batch tokens d_model].
    """
    if not isinstance(tokens, Tensor | KeyValue | None) or (tokens is None and name == "x"):
        raise TypeError(
            f"{name} is {type_name(tokens)}; this {type(layer).__name__} takes a tensor [batch tokens {d_model}], and "
            "torch.as_tensor makes one of an array or a list."
        )
    if isinstance(tokens, Tensor) and (tokens.ndim != 3 or tokens.shape[2] != d_model):
        raise ValueError(
            f"{name} has shape {list(tokens.shape)}; this {type(layer).__name__} takes [batch tokens {d_model}]."
        )
    if isinstance(tokens, Tensor) and not tokens.is_floating_point():
        raise TypeError(
            f"{name} has dtype {tokens.dtype}; this {type(layer).__name__} takes vectors of floats; convert whole "
            "numbers with .float(), and token ids with an nn.Embedding."
        )
    if isinstance(tokens, Tensor) and tokens.dtype is torch.float64:  # the type of NumPy's numbers
        dtype = next(layer.parameters()).dtype
        if dtype is not torch.float64:
            raise TypeError(
                f"{name} has dtype torch.float64 and the parameters of this {type(layer).__name__} have {dtype}; "
                f"convert {name} with .to({dtype}), or the layer with .double()."
            )


def check_cache(cache: object, kind: type) -> None:
    if not isinstance(cache, kind | None):
        raise TypeError(f"cache is {type_name(cache)}; it takes the cache of an earlier call, layer(x).cache.")


def check_sizes(d_model: int, n_heads: int, n_key_heads: int) -> None:
    for name, size in (("d_model", d_model), ("n_heads", n_heads), ("n_key_heads", n_key_heads)):
        if not isinstance(size, Integral):
            raise TypeError(f"{name} is {type_name(size)}; it takes a whole number.")
    if n_heads < 1 or d_model % n_heads:
        raise ValueError(
            f"d_model={d_model} does not split evenly into n_heads={n_heads}; "
            f"head counts that divide it: {divisors(d_model)}."
        )
    if n_key_heads < 1 or n_heads % n_key_heads:
        raise ValueError(
            f"n_heads={n_heads} does not split evenly into groups for n_key_heads={n_key_heads}; "
            f"head counts that divide it: {divisors(n_heads)}."
        )


def check_positions(positions: object) -> None:
    if not isinstance(positions, Rotary | None):
        raise TypeError(
            f"positions is {type_name(positions)}; it takes an object such as Rotary(), which rotates queries and "
            "keys. Vectors that are added to tokens (LearnedPositions, sinusoidal) are added before this layer."
        )
