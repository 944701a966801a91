"""The windows of Swin: each layer divides the picture into windows, and a patch attends only to patches of its window.

In every second layer, the windows are shifted by half a window, so that they continue at the opposite edge of the
picture. From stage to stage, 2 × 2 patches are merged to one.

Source: Liu et al. 2021, "Swin Transformer: hierarchical vision transformer using shifted windows", section 3.2.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Int
from torch import Tensor, nn

from regard.attention.attend import Attended
from regard.attention.call import Call
from regard.attention.masks import Documents
from regard.attention.pattern import Pattern
from regard.attention.scores.dot import ScaledDot
from regard.errors import InputError
from regard.tracing.watching.joined_calls import call_of, in_one_sequence


@dataclass(frozen=True, slots=True)
class ShiftedWindows:
    """The division of a grid of patches into windows in one layer.

    Attributes:
        rows, columns: the numbers of rows and columns of patches.
        side: the number of rows, and of columns, of patches in a window.
        shift: the number of rows, and of columns, by which the windows are shifted.
    """

    rows: int
    columns: int
    side: int
    shift: int

    @classmethod
    def of(cls, model: nn.Module, path: str) -> "ShiftedWindows | None":
        """Return the windows of the layer that contains the attention module at `path`; None if it has no windows.

        Raises:
            InputError: the layer adds padding to the patches.
        """
        names = path.split(".")
        around = [model.get_submodule(".".join(names[:stop])) for stop in range(len(names), 0, -1)]
        layer: Any = next((module for module in around if hasattr(module, "shift_size")), None)
        if layer is None:
            return None
        rows, columns = layer.input_resolution
        windows = cls(rows, columns, int(layer.window_size), int(layer.shift_size))
        if rows % windows.side or columns % windows.side:
            raise InputError(
                f"{path} divides {rows} × {columns} patches into windows of {windows.side} × {windows.side}, with "
                "padding that is no part of the picture; regard.watching(model) records the attention without tokens."
            )
        return windows

    @property
    def grid(self) -> tuple[int, int]:
        return self.rows, self.columns

    def order(self, n_pictures: int) -> Int[Tensor, " tokens"]:
        """Return, for each token in the order in which the layer reads them (window by window), the index of its patch.

        Patches are numbered row by row, picture after picture.
        """
        grid = torch.arange(n_pictures * self.rows * self.columns).view(n_pictures, self.rows, self.columns)
        shifted = grid.roll((-self.shift, -self.shift), dims=(1, 2))
        return rearrange(shifted, "b (r m) (c n) -> (b r c m n)", m=self.side, n=self.side)

    def in_rows(self, attended: Attended) -> Attended:
        """Join the windows of an attention call to one sequence, in which the patches follow one another row by row.

        The biases of the windows become one matrix of patches × patches for each head.

        Raises:
            InputError: the number of patches differs from that of the model's configuration.
        """
        batch, _, queries, _ = attended.pattern.shape
        n_pictures = batch * queries // (self.rows * self.columns)
        if queries != self.side**2 or n_pictures * self.rows * self.columns != batch * queries:
            raise InputError(
                f"the attention of {batch} windows of {queries} patches does not fit a picture of {self.rows} × "
                f"{self.columns} patches; regard.watching(model) records the attention without tokens."
            )
        if batch == 1:
            return attended
        call_of(attended)  # raises InputError if the queries and keys were not recorded
        one = in_one_sequence(attended)
        order = self.order(n_pictures).to(one.context.device).argsort()
        call, score = one.pattern.call, one.pattern.call.score
        if isinstance(score, ScaledDot) and isinstance(score.bias, Tensor):
            score = replace(score, bias=score.bias[:, :, order][..., order])
        assert isinstance(call.mask, Documents)
        query, key, value, context = (tensor[:, :, order] for tensor in (call.query, call.key, call.value, one.context))
        pattern = Pattern(Call.of(query, key, value, score, Documents(call.mask.ids[order]), call.normalise))
        return replace(one, context=context, pattern=pattern)


def check_one_grid(model: str, windows: Mapping[int, ShiftedWindows | None]) -> None:
    """Raise InputError if layers divide the picture into different patches.

    Args:
        windows: the shifted windows of each layer; None = the layer has no windows.
    """
    layers: dict[tuple[int, int], list[int]] = {}
    for layer, division in windows.items():
        if division is not None:
            layers.setdefault(division.grid, []).append(layer)
    if len(layers) > 1:
        found = ", ".join(f"{rows} × {columns} in {listed(numbers)}" for (rows, columns), numbers in layers.items())
        raise InputError(
            f"{model} merges patches from layer to layer ({found}), and the layers of a trace have the same tokens; "
            f"choose layers of one size, such as layers={next(iter(layers.values()))}."
        )


def listed(numbers: Sequence[int]) -> str:
    """Return layer numbers in words.

    >>> listed([2]), listed([2, 3, 4])
    ('layer 2', 'layers 2 to 4')
    """
    return f"layer {numbers[0]}" if len(numbers) == 1 else f"layers {numbers[0]} to {numbers[-1]}"
