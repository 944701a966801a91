"""Reshapes attention tensors with any leading axes to [batch heads queries keys] or [batch heads tokens width]."""

from collections.abc import Sequence

import torch
from torch import Tensor


def four_axes(tensor: Tensor, lead: Sequence[int], n_heads: int | None) -> Tensor:
    """Reshape a tensor [*lead rows columns] to [batch heads rows columns]; `lead` axes may be missing or of size 1.

    Two leading axes are batch and heads. Of other leading axes, the last of size `n_heads` is the axis of heads, and
    the others are joined to the batch, as in Hiera's [batch heads windows tokens width]. If no axis has this size, all
    are joined into one axis batch · heads, which is split by `n_heads`. If `n_heads` is None (unknown), or does not
    divide it, the last of several leading axes is the axis of heads; a single leading axis is the batch, with one head.

    >>> import torch
    >>> four_axes(torch.ones(6, 5, 4), (6,), n_heads=3).shape
    torch.Size([2, 3, 5, 4])
    >>> four_axes(torch.ones(2, 3, 7, 5, 4), (2, 3, 7), n_heads=3).shape
    torch.Size([14, 3, 5, 4])
    """
    n_missing = len(lead) + 2 - tensor.ndim
    tensor = tensor[(None,) * n_missing]  # adds axes of size 1 in front
    if len(lead) == 2:
        return tensor
    rows, columns = tensor.shape[-2:]
    if tensor.shape[:-2].numel() == 1:
        return tensor.reshape(1, 1, rows, columns)
    expanded = tensor.expand(*lead, rows, columns)
    axis = axis_of_heads(lead, n_heads)
    if axis is not None:
        return expanded.movedim(axis, -3).reshape(-1, lead[axis], rows, columns)
    n_items = expanded.shape[:-2].numel()
    if n_heads is None or n_items % n_heads != 0:
        n_heads = lead[-1] if len(lead) > 1 else 1
    return expanded.reshape(-1, n_heads, rows, columns)


def from_four_axes(tensor: Tensor, shape: torch.Size, n_heads: int | None) -> Tensor:
    """Return a tensor [batch heads rows columns] with the `shape` [*lead rows columns] that it had before `four_axes`.

    >>> tensor = torch.rand(2, 3, 7, 5, 4)
    >>> torch.equal(from_four_axes(four_axes(tensor, (2, 3, 7), n_heads=3), tensor.shape, n_heads=3), tensor)
    True
    """
    lead = shape[:-2]
    axis = None if len(lead) == 2 else axis_of_heads(lead, n_heads)
    if axis is None:
        return tensor.reshape(shape)
    rest = (*lead[:axis], *lead[axis + 1 :])
    return tensor.reshape(*rest, lead[axis], *shape[-2:]).movedim(-3, axis)


def axis_of_heads(lead: Sequence[int], n_heads: int | None) -> int | None:
    """Return the last of the leading axes whose size is `n_heads`; None if no axis has this size."""
    return max((axis for axis, size in enumerate(lead) if size == n_heads), default=None)


def heads_and_batch(tensor: Tensor, n_items: int, n_heads: int) -> Tensor:
    """Reshape a tensor [heads · batch rows columns], whose first axis has `n_items`, to [batch heads rows columns].

    The first axis has all batch items of head 0, then those of head 1, and so on. It may be missing, or have size 1.

    >>> heads_and_batch(torch.arange(6).view(6, 1, 1), n_items=6, n_heads=3).flatten(1)
    tensor([[0, 2, 4],
            [1, 3, 5]])
    """
    tensor = tensor.expand(n_items, *tensor.shape[-2:])
    return tensor.reshape(n_heads, n_items // n_heads, *tensor.shape[-2:]).transpose(0, 1)
