"""Checks of token ids, and of lengths: the number of tokens of each batch item, without padding."""

import torch
from jaxtyping import Integer
from torch import Tensor

from regard.attention.gradients import in_torch_func, is_recorded
from regard.attention.representation import type_name


def shortest_and_longest(lengths: Integer[Tensor, " batch"], n_tokens: int) -> tuple[int, int]:
    """Return the smallest and the largest length; 0 and n_tokens if Python may not read the lengths."""
    if not may_read(lengths):
        return 0, n_tokens
    numbers = lengths.tolist() or [0]  # an empty batch has no lengths, so min and max would raise
    return min(numbers), max(numbers)


def may_read(numbers: Tensor) -> bool:
    """Return whether Python may read the numbers of a tensor. It may not in these cases:

    On an accelerator, reading would wait for all queued kernels. Under torch.compile, torch.jit.trace and make_fx, the
    numbers would become constants of the program. Under torch.vmap, each element stands for several numbers.
    """
    return numbers.is_cpu and not (torch.compiler.is_compiling() or in_torch_func() or is_recorded())


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


def check_token_ids(name: str, ids: Integer[Tensor, "batch tokens"], n_tokens: int) -> None:
    """Raise an error unless `ids` is a tensor [batch tokens] of token ids, each from 0 to n_tokens - 1.

    Raises:
        TypeError: it is not a tensor, or its numbers are not whole numbers.
        ValueError: it has not two axes, or an id is out of range. Ids on an accelerator are not checked.
    """
    check_id_axes(name, ids)
    if not may_read(ids) or ids.numel() == 0:
        return
    smallest, largest = map(int, ids.aminmax())
    if smallest < 0 or largest >= n_tokens:
        wrong = smallest if smallest < 0 else largest
        raise ValueError(
            f"{name} has the token id {wrong}, and the vocabulary has {n_tokens:,} tokens; give ids from 0 to "
            f"{n_tokens - 1}."
        )


def check_id_axes(name: str, ids: Integer[Tensor, "batch tokens"]) -> None:
    check_whole_numbers(name, ids, "[batch tokens]")
    if ids.ndim != 2:
        raise ValueError(f"{name} has shape {list(ids.shape)}; token ids have two axes, [batch tokens].")


def check_source(source: Integer[Tensor, "batch tokens"], lengths: Integer[Tensor, " batch"]) -> None:
    """Raise an error unless `source` has two axes of whole numbers, and `lengths` one length for each row.

    Raises:
        TypeError: one of the two is not a tensor of whole numbers.
        ValueError: a shape is wrong, or a length is below 1 or above the number of tokens.
    """
    check_id_axes("source", source)
    check_whole_numbers("lengths", lengths, "[batch]")
    batch, width = source.shape
    if tuple(lengths.shape) != (batch,):
        raise ValueError(
            f"lengths has shape {list(lengths.shape)}, and source has a batch of {batch}; give one length for each "
            f"row of source, [{batch}]."
        )
    if not may_read(lengths):
        return
    for item, length in enumerate(lengths.tolist()):
        if not 1 <= length <= width:
            raise ValueError(
                f"lengths[{item}]={length} in a source of {width} tokens; a length counts the tokens before the "
                f"padding, from 1 to {width}."
            )


def check_whole_numbers(name: str, numbers: Integer[Tensor, "..."], axes: str) -> None:
    """Raise TypeError unless `numbers` is a tensor of whole numbers; `axes` says in the message which axes it has."""
    if not isinstance(numbers, Tensor):
        raise TypeError(
            f"{name} is {type_name(numbers)}; it takes a tensor of whole numbers {axes}, and torch.as_tensor makes one "
            "of an array or a list."
        )
    if numbers.is_floating_point() or numbers.is_complex() or numbers.dtype == torch.bool:
        raise TypeError(f"{name} has dtype {numbers.dtype}; it takes a tensor of whole numbers {axes}, such as int64.")
