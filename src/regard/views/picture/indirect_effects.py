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
    figure, _ = every_head_figure(effects.heads, effects.layers, title(effects), listed, label, signed=True)
    return figure


def title(effects: IndirectEffects) -> list[str]:
    clean, corrupted = map(quoted, effects.texts)
    return [
        f"{quoted(effects.traces[1].model)} reads {corrupted}, each time with the output of one head from {clean}.",
        "Each cell: how much of the difference between the two runs its head restores. "
        f"The metric is {effects.clean:.3g} in the clean run and {effects.corrupted:.3g} in the corrupted run."
        + meaning_of_grey(effects),
    ]


def meaning_of_grey(effects: IndirectEffects) -> str:
    """Return a sentence that says why cells of the grid are grey; "" if none is."""
    n_heads = [effects.traces[1].attended[kind][layer].pattern.n_heads for kind, layer in effects.layers]
    n_without_head = sum(max(n_heads) - n for n in n_heads)  # cells of layers with fewer heads than others
    reasons = ["not tried"] if int(effects.heads.isnan().sum()) > n_without_head else []
    reasons += ["no such head"] if n_without_head else []
    return f" Grey: {', or '.join(reasons)}." if reasons else ""
