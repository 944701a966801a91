"""Equations: what stands between $$ becomes a drawing in the colour of the text, so no page loads a formula engine."""

import html
import io
import re
from functools import cache

import matplotlib
from drawing import METADATA
from matplotlib.figure import Figure

EQUATION = re.compile(r"^\$\$\n(.*?)\n\$\$$", re.MULTILINE | re.DOTALL)

SIZE = 13.5
"""Points."""


def typeset(markdown: str) -> str:
    """A page with its equations drawn, a drawing for each line."""
    return EQUATION.sub(lambda found: equation(found[1]), markdown)


def equation(lines: str) -> str:
    """One equation, of one line or several."""
    drawings = "".join(f"<div>{drawn(line.strip())}</div>" for line in lines.splitlines() if line.strip())
    return f'<div class="equation" role="math" aria-label="{html.escape(" ".join(lines.split()))}">{drawings}</div>'


@cache
def drawn(line: str) -> str:
    """A line of TeX as an SVG."""
    figure, memory = Figure(figsize=(1, 1)), io.BytesIO()
    with matplotlib.rc_context({"mathtext.fontset": "stix", "svg.hashsalt": "regard", "svg.fonttype": "path"}):
        displayed = line.replace(r"\frac", r"\dfrac")  # as TeX sets it between $$
        figure.text(0, 0, f"${displayed}$", fontsize=SIZE)
        figure.savefig(
            memory, format="svg", transparent=True, bbox_inches="tight", pad_inches=0.03, metadata=METADATA[".svg"]
        )
    svg = memory.getvalue().decode()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    coloured = re.sub(r"<svg ", '<svg fill="currentColor" aria-hidden="true" ', svg, count=1)
    return re.sub(r"\s*\n\s*", " ", coloured).strip()
