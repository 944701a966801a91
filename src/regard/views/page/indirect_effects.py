"""The web page of indirect effects: a clean and a corrupted text, and the effect of each head on the model's output."""

import math
from pathlib import Path

from regard.tracing.focus import focus_on
from regard.tracing.indirect_effects import IndirectEffects
from regard.tracing.tokens.token_reference import TokenReference
from regard.views.output_file import check_writable, write_output
from regard.views.page import document
from regard.views.page.comparison import data_of_two


def write_page(
    effects: IndirectEffects, path: Path, token: TokenReference | None = None, head: str | None = None
) -> Path:
    """Write the effects as one web page and return the path.

    Args:
        token: the query token of the clean text that the page shows first; None = chosen by `focus_on`.
        head: the name of the head that the page shows first; None = the head with the largest effect.
    """
    check_writable(path)
    return write_output(path, effects_page(effects, token, head))


def effects_page(effects: IndirectEffects, token: TokenReference | None = None, head: str | None = None) -> str:
    clean, corrupted = effects.traces
    if not head:
        head, _largest_effect = effects.largest(1)[0]
    focus = focus_on(clean, token=token, head=head)
    records = []
    for (kind, layer), effects_of_heads in zip(effects.layers, effects.heads.tolist(), strict=True):
        for number, effect in enumerate(effects_of_heads):
            if not math.isnan(effect):
                records.append({"kind": kind, "layer": layer, "head": number, "effect": effect})
    fields = "model", "kinds", "blocks", "text", "source", "target"
    return document(data_of_two(clean, corrupted, focus, fields) | {"effects": records}, clean.text)
