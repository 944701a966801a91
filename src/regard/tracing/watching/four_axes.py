"""Reshapes attention tensors with any leading axes to [batch heads queries keys] or [batch heads tokens width]."""

from collections.abc import Sequence

from torch import Tensor


def four_axes(tensor: Tensor, lead: Sequence[int], n_heads: int | None) -> Tensor:
    """Reshape a tensor [*lead rows columns] to [batch heads rows columns]; `lead` axes may be missing or of size 1.

    Two leading axes are batch and heads. Other leading axes are joined into one axis batch · heads, which is split by
    `n_heads`. If `n_heads` is None (unknown), the last of several leading axes is the axis of heads, and a single
    leading axis is the batch, with one head.

    >>> import torch
    >>> four_axes(torch.ones(6, 5, 4), (6,), n_heads=3).shape
    torch.Size([2, 3, 5, 4])
    """
    tensor = tensor[(None,) * (len(lead) + 2 - tensor.ndim)]
    if len(lead) == 2:
        return tensor
    rows, columns = tensor.shape[-2:]
    if tensor.shape[:-2].numel() == 1:
        return tensor.reshape(1, 1, rows, columns)
    expanded = tensor.expand(*lead, rows, columns)
    n_items = expanded.shape[:-2].numel()
    if n_heads is None or n_items % n_heads:
        n_heads = lead[-1] if len(lead) > 1 else 1
    return expanded.reshape(-1, n_heads, rows, columns)
