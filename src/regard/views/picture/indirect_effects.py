"""The indirect effects of heads as a picture: a grid of layers × heads.

The model reads a clean and a corrupted text. For each head, it reads the corrupted text again, with the head's output
from the clean text. The cell of the head shows the effect: 0 = the model's result is as for the corrupted text, 1 = as
for the clean text.
"""

from pathlib import Path

from matplotlib.figure import Figure

from regard.tracing.indirect_effects import IndirectEffects
from regard.views.picture.canvas import check_picture_path, save_figure
from regard.views.picture.every_head import every_head_figure
from regard.views.picture.fonts import quoted
from regard.views.picture.head_grid import N_LISTED


def write_figure(effects: IndirectEffects, path: Path) -> Path:
    check_picture_path(path)
    return save_figure(effects_figure(effects), path)


def effects_figure(effects: IndirectEffects) -> Figure:
    listed = "largest effects", [(head, "", effect, False) for head, effect in effects.largest(N_LISTED)]
    label = "share of the difference that is restored"
    return every_head_figure(effects.heads, effects.layers, title(effects), listed, label, signed=True)[0]


def title(effects: IndirectEffects) -> list[str]:
    clean, corrupted = map(quoted, effects.texts)
    grey_cells = " Grey: not tried." if bool(effects.heads.isnan().any()) else ""
    return [
        f"{quoted(effects.traces[1].model)} reads {corrupted}, each time with the output of one head from {clean}.",
        "Each cell: how much of the difference between the two runs that head restores. "
        f"The metric is {effects.clean:.3g} in the clean run and {effects.corrupted:.3g} in the corrupted run."
        + grey_cells,
    ]
