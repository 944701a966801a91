"""Lengths of batch items: their numbers of tokens, without padding."""

import torch
from jaxtyping import Integer
from torch import Tensor

from regard.attention.gradients import in_torch_func, is_recorded


def shortest_and_longest(lengths: Integer[Tensor, " batch"], n_tokens: int) -> tuple[int, int]:
    """Return the smallest and the largest length; 0 and n_tokens if Python may not read the lengths."""
    if not may_read(lengths):
        return 0, n_tokens
    numbers = lengths.tolist() or [0]  # an empty batch has no lengths, so min and max would raise
    return min(numbers), max(numbers)


def may_read(lengths: Integer[Tensor, " batch"]) -> bool:
    """Return whether Python may read the numbers of a tensor. It may not in these cases:

    On an accelerator, reading would wait for all queued kernels. Under torch.compile, torch.jit.trace and make_fx, the
    numbers would become constants of the program. Under torch.vmap, each element stands for several numbers.
    """
    return lengths.is_cpu and not (torch.compiler.is_compiling() or in_torch_func() or is_recorded())


def check_lengths_not_negative(mask_name: str, name: str, lengths: Integer[Tensor, " batch"]) -> None:
    if not may_read(lengths):
        return
    # flattened, since lengths may have a wrong shape here: only `attend` checks it (`RangeMask.check`)
    for item, length in enumerate(lengths.flatten().tolist()):
        if length < 0:
            raise ValueError(
                f"{mask_name} was given {name}[{item}]={length}; a length is a number of tokens, at least 0; "
                "give 0 for none."
            )


def check_source_lengths(lengths: Integer[Tensor, " batch"], n_tokens: int) -> None:
    """Check the lengths of the source sentences of an encoder: each is from 1 to n_tokens, which counts padding too.

    Raises ValueError for any other length.
    """
    if not may_read(lengths):
        return
    for item, length in enumerate(lengths.tolist()):
        if not 1 <= length <= n_tokens:
            raise ValueError(
                f"lengths[{item}]={length} in a source of {n_tokens} tokens; a length counts the tokens before the "
                f"padding, from 1 to {n_tokens}."
            )
