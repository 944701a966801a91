"""Converts pictures for models that merge squares of patches to one text token each, such as Qwen2-VL and Qwen2.5-VL.

The processor of such a model returns all patches in one list, in which the merge_size × merge_size patches of a square
follow one another. Some models divide a picture into windows of several squares (`window_size`): they read the squares
window by window, and in some layers a patch attends only to patches of its own window.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from regard.attention.call import Call
from regard.attention.masks import Documents
from regard.attention.pattern import Pattern
from regard.errors import InputError
from regard.tracing.watching import WatchedStep


def picture_grid(encoded: Mapping[str, Tensor], merge: int) -> tuple[int, int]:
    """Return the numbers of rows and columns of squares of patches in a picture.

    Args:
        encoded: the processor's output for one picture.
        merge: the number of rows, and of columns, of patches in a square.

    Raises:
        InputError: there are several pictures, or a video.
    """
    frames = encoded["image_grid_thw"].tolist()
    if len(frames) != 1:
        raise not_one_picture(f"there are {len(frames)} pictures")
    if frames[0][0] != 1:
        raise not_one_picture(f"the picture has {frames[0][0]} frames")
    return frames[0][1] // merge, frames[0][2] // merge


def not_one_picture(found: str) -> InputError:
    """Return the error for input that is not one picture; `found` says what it is."""
    return InputError(
        f"{found}, and a trace has tokens for the patches of one picture; regard.watching(model) records the attention "
        "without tokens."
    )


def picture_of(
    pixels: Float[Tensor, "patches numbers"], rows: int, merge: int, patch: int
) -> Float[Tensor, "3 height width"]:
    """Return the picture that consists of some patches.

    Args:
        pixels: the pixels of each patch, in the order of the processor: square by square, and row by row in a square.
        rows: the number of rows of squares.
        merge: the number of rows, and of columns, of patches in a square.
        patch: the side length of a patch in pixels.
    """
    frames = rearrange(
        pixels,
        "(rows columns m n) (c t p q) -> t c (rows m p) (columns n q)",
        rows=rows, m=merge, n=merge, c=3, p=patch, q=patch,
    )  # fmt: skip
    return frames[0]


def patch_order(rows: int, columns: int, merge: int, window: int | None) -> list[tuple[int, int]]:
    """Return the row and the column of each patch, in the order in which the vision model reads them.

    Args:
        rows: the number of rows of squares.
        columns: the number of columns of squares.
        merge: the number of rows, and of columns, of patches in a square.
        window: the number of rows, and of columns, of squares in a window; None = the model has no windows.
    """
    squares = [(row, column) for row in range(rows) for column in range(columns)]
    if window is not None:
        squares.sort(key=lambda square: (square[0] // window, square[1] // window, *square))
    inside = [(row, column) for row in range(merge) for column in range(merge)]
    return [(row * merge + m, column * merge + n) for row, column in squares for m, n in inside]


def join_windows(steps: Sequence[WatchedStep]) -> list[WatchedStep]:
    """Join successive attention calls of one module, one for each window of a picture, to one call.

    In the joined call, a token attends only to tokens of its own window. Calls that `is_joinable` rejects stay as they
    are.
    """
    groups: list[list[WatchedStep]] = []
    for step in steps:
        if groups and groups[-1][-1].path == step.path and is_joinable(groups[-1][-1], step):
            groups[-1].append(step)
        else:
            groups.append([step])
    return [group[0] if len(group) == 1 else joined(group) for group in groups]


def is_joinable(step: WatchedStep, other: WatchedStep) -> bool:
    """Return whether two attention calls have no mask, the same score, and as many queries as keys."""
    calls = [one.attended.pattern.call for one in (step, other)]
    is_alike = repr(calls[0].score) == repr(calls[1].score) and calls[0].query.shape[1] == calls[1].query.shape[1]
    return is_alike and all(call.mask is None and call.grid.queries == call.grid.keys for call in calls)


def joined(steps: Sequence[WatchedStep]) -> WatchedStep:
    """Join attention calls of a module to one call, whose mask lets a token attend only to tokens of its own call."""
    calls = [step.attended.pattern.call for step in steps]
    query, key, value = (
        torch.cat([getattr(call, name) for call in calls], dim=2) for name in ("query", "key", "value")
    )
    lengths = torch.tensor([call.grid.keys for call in calls], device=query.device)
    ids = torch.arange(len(calls), device=query.device).repeat_interleave(lengths)
    call = Call.of(query, key, value, calls[0].score, Documents(ids), calls[0].normalise)
    context = torch.cat([step.attended.context for step in steps], dim=2)
    return replace(steps[0], attended=replace(steps[0].attended, context=context, pattern=Pattern(call)))
