"""The windows of Swin: each layer divides the picture into windows, and a patch attends only to patches of its window.

In every second layer, the windows are shifted by half a window, so that they continue at the opposite edge of the
picture. If the windows do not fill the picture, padding is added at its right and its bottom. From stage to stage,
2 × 2 patches are merged into one.

Source: Liu et al. 2021, "Swin Transformer: hierarchical vision transformer using shifted windows", section 3.2.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Int
from torch import Tensor, nn

from regard.attention.attend import Attended
from regard.tracing.watching.joined_calls import in_one_sequence


@dataclass(frozen=True, slots=True)
class ShiftedWindows:
    """The division of a grid of patches into windows in one layer.

    `rows` and `columns` count patches, without padding. A window has side × side patches. The windows are shifted by
    `shift` rows and columns; 0 = they are not shifted.
    """

    rows: int
    columns: int
    side: int
    shift: int

    @property
    def padded_grid(self) -> tuple[int, int]:
        """The numbers of rows and columns of patches, rounded up to whole windows."""
        return math.ceil(self.rows / self.side) * self.side, math.ceil(self.columns / self.side) * self.side

    def in_rows(self, attended: Attended) -> Attended:
        """Join the windows of an attention call into one sequence, in which the patches follow one another row by row.

        Padding is a part of the sequence: patches at the end of each row, and rows at the end of each picture.
        """
        if attended.pattern.shape[0] == 1:
            return attended
        return in_one_sequence(attended, self.order(attended.pattern.shape[0]))

    def order(self, n_windows: int) -> Int[Tensor, " tokens"]:
        """Return, for each patch, its index in the order in which the layer reads the patches: window by window.

        The result has the patches row by row, picture after picture; `n_windows` counts the windows of all pictures.
        """
        rows, columns = self.padded_grid
        grid = torch.arange(n_windows * self.side**2).view(-1, rows, columns)
        shifted = grid.roll((-self.shift, -self.shift), dims=(1, 2))
        by_window = rearrange(shifted, "b (r m) (c n) -> (b r c m n)", m=self.side, n=self.side)
        return by_window.argsort()  # of a permutation, argsort is the inverse


@contextmanager
def recording_windows(model: nn.Module) -> Iterator[Mapping[str, ShiftedWindows]]:
    """Yield a mapping from the paths of layers to their windows, for models that divide pictures like Swin.

    A layer's windows are added before its attention is computed; the mapping stays empty for other models.
    """
    windows: dict[str, ShiftedWindows] = {}
    grids: dict[str, tuple[int, int]] = {}

    def record_grid(path: str, layer: Any, args: tuple[Any, ...]) -> None:
        _, grids[path], *_ = args  # a layer of Swin is called with the vectors and the grid (rows, columns)

    def record_windows(path: str, layer: Any, attention: Any, args: Any) -> None:
        windows[path] = ShiftedWindows(*grids[path], int(layer.window_size), int(layer.shift_size))

    with ExitStack() as hooks:
        for path, module in model.named_modules():
            if has_windows(module):  # a layer may change its windows before it calls its attention
                attention: Any = module.attention
                hooks.callback(module.register_forward_pre_hook(partial(record_grid, path)).remove)
                hooks.callback(attention.register_forward_pre_hook(partial(record_windows, path, module)).remove)
        yield windows


def has_windows(module: nn.Module) -> bool:
    """Return whether a module is a layer that divides pictures into windows, like a layer of Swin."""
    return hasattr(module, "shift_size") and hasattr(module, "input_resolution")


def windows_around(windows: Mapping[str, ShiftedWindows], path: str) -> ShiftedWindows | None:
    """Return the windows of the layer that contains an attention module; None if the layer has no windows."""
    return next((windows_of_layer for layer, windows_of_layer in windows.items() if path.startswith(f"{layer}.")), None)
