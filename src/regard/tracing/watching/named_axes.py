"""Tensors whose axes have names, so that an axis can be followed through views, transpositions and products.

Most names are numbers; `new_axis` returns each number once. Every operation here is on a whole tensor and copies no
numbers, except that joining axes may copy.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import torch
from torch import Tensor

Axis = int | str | None
"""The name of an axis: a number, a letter of an einsum, or None for an axis of size 1 that needs no name."""

Axes = tuple[Axis, ...]

new_axis: Callable[[], int] = count().__next__
"""Return a name that no axis has yet."""


@dataclass(frozen=True, slots=True, eq=False)
class Named:
    tensor: Tensor
    axes: Axes

    def arranged(self, wanted: Sequence[Axis]) -> Tensor | None:
        """Return the tensor with its axes in the order `wanted`; a wanted axis that is missing gets size 1.

        Return None if the tensor has an axis that is not wanted and whose size is not 1.

        >>> Named(torch.ones(2, 3, 1), ("j", "b", "x")).arranged(["b", "h", "j"]).shape
        torch.Size([3, 1, 2])
        """
        tensor, axes = self.tensor, list(self.axes)
        for axis in [axis for axis in axes if axis not in wanted or axis is None]:
            if tensor.shape[axes.index(axis)] != 1:
                return None
            tensor = tensor.squeeze(axes.index(axis))
            axes.remove(axis)
        tensor = tensor.permute([axes.index(axis) for axis in wanted if axis in axes])
        return tensor[tuple([slice(None) if axis in axes else None for axis in wanted])]  # None adds an axis of size 1

    def regrouped(self, regrouping: "Regrouping", limit: int) -> "Named | None":
        """Return the tensor after its axes `regrouping.old` are joined or split to the axes `regrouping.new`.

        If the tensor lacks an old axis, it is expanded first; None if it would then have more than `limit` numbers.
        """
        old, new = regrouping.old, regrouping.new
        if not any(axis in self.axes for axis in old):
            return self
        rest = [axis for axis in self.axes if axis not in old]
        tensor = self.arranged([*old, *rest])
        assert tensor is not None  # every axis is wanted, and an axis with the name None has size 1
        expanded = tensor.expand(*regrouping.old_sizes, *tensor.shape[len(old) :])
        if expanded.shape != tensor.shape and expanded.numel() > limit:
            return None
        return Named(expanded.reshape(*regrouping.new_sizes, *expanded.shape[len(old) :]), (*new, *rest))


@dataclass(frozen=True, slots=True)
class Regrouping:
    """Neighbouring axes that a view joins or splits to other axes with the same product of sizes."""

    old: Axes
    old_sizes: tuple[int, ...]
    new: Axes
    new_sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AxesChange:
    """How a view, transpose or expansion changes axes: the axes of its result, and which axes it joins or splits."""

    axes: Axes
    regroupings: tuple[Regrouping, ...] = ()


def view(axes: Axes, old: torch.Size, new: torch.Size) -> AxesChange:
    """Return how tensor.view(new) changes the axes of a tensor of the shape `old`.

    >>> view(("b", "q", "k"), torch.Size([3, 1, 5]), torch.Size([3, 5])).axes
    ('b', 'k')
    """
    new_axes: list[Axis] = []
    regroupings: list[Regrouping] = []
    i_old = i_new = 0
    while i_old < len(old) or i_new < len(new):
        old_size = old[i_old] if i_old < len(old) else 1
        new_size = new[i_new] if i_new < len(new) else 1
        if i_old < len(old) and i_new < len(new) and old_size == new_size:  # the axis is kept
            new_axes.append(axes[i_old])
            i_old, i_new = i_old + 1, i_new + 1
        elif old_size == 1 and i_old < len(old):  # an axis of size 1 is dropped
            i_old += 1
        elif new_size == 1 and i_new < len(new):  # an axis of size 1 is added
            new_axes.append(new_axis())
            i_new += 1
        else:  # axes are joined or split: find the fewest whose products of sizes are equal
            first_old, first_new, old_product, new_product = i_old, i_new, old_size, new_size
            i_old, i_new = i_old + 1, i_new + 1
            while old_product != new_product:  # the products of all sizes are equal, so this ends
                if old_product < new_product:
                    old_product, i_old = old_product * old[i_old], i_old + 1
                else:
                    new_product, i_new = new_product * new[i_new], i_new + 1
            names: Axes = tuple(new_axis() for _ in range(first_new, i_new))
            old_part, new_part = slice(first_old, i_old), slice(first_new, i_new)
            regroupings.append(Regrouping(axes[old_part], tuple(old[old_part]), names, tuple(new[new_part])))
            new_axes.extend(names)
    return AxesChange(tuple(new_axes), tuple(regroupings))


def permutation(axes: Axes, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> AxesChange:
    """Return how a function such as torch.permute or torch.unsqueeze changes the axes of its first argument.

    The function is called on a tensor whose axes have different sizes; the sizes of the result tell its axes.
    """
    sizes = range(2, 2 + len(axes))  # no axis has size 1, the size of added axes
    axis_of_size = dict(zip(sizes, axes, strict=True))
    result = func(torch.empty(*sizes, device="meta"), *args, **kwargs)
    return AxesChange(tuple([new_axis() if size == 1 else axis_of_size[size] for size in result.shape]))


def expansion(axes: Axes, old: torch.Size, new: torch.Size) -> AxesChange | None:
    """Return how tensor.expand(new) changes the axes of a tensor of shape `old`; None if `old` does not broadcast."""
    n_added = len(new) - len(old)
    if n_added < 0 or any(size not in (1, new_size) for size, new_size in zip(old, new[n_added:], strict=True)):
        return None
    sizes = zip(axes, old, new[n_added:], strict=True)
    last_axes = [axis if old_size == new_size else new_axis() for axis, old_size, new_size in sizes]
    return AxesChange((*[new_axis() for _ in range(n_added)], *last_axes))
