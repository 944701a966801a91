"""An evaluation of translations as one web page: scores, scores by length, and the worst lines.

The page needs no network and no script. The evaluated texts may contain HTML, which could harm whoever opens the page.
So all texts are escaped, and the page's content security policy allows the browser to load nothing but one style sheet,
which the policy identifies by its hash.
"""

import base64
import hashlib
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from regard.evaluation.records import Evaluation, LengthGroup, MetricScore, SentenceScore
from regard.views.evaluation.wording import (
    length_range,
    p_value_text,
    score_note,
    score_text,
    signed_difference,
    worst_lines,
)
from regard.views.evaluation.words import Part, differences, nearest_reference
from regard.views.output_file import check_writable, write_output

N_WORST = 200
"""The page shows at most this many translated lines: those with the lowest chrF."""


def write_page(evaluation: Evaluation, path: Path, name: str, against: str | None = None) -> Path:
    """Write an evaluation of the system `name` as one web page, and return the path.

    `against` is the name of the second system; None = only one system was evaluated.
    """
    check_writable(path)
    return write_output(path, page(evaluation, name, against))


def page(evaluation: Evaluation, name: str, against: str | None = None) -> str:
    views = files("regard.views")
    # The page of an evaluation also uses the style sheet of a trace's page.
    style = "".join(
        views.joinpath(path).read_text(encoding="utf-8") for path in ("page/built/page.css", "evaluation/page.css")
    )
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    lines = worst_lines(evaluation, N_WORST)
    return Template(views.joinpath("evaluation/page.html").read_text(encoding="utf-8")).substitute(
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
        title=escape(name),
        style=style,
        facts=summary_line(evaluation, against),
        scores="\n".join(
            [*(score_card(score, score_note(score, evaluation)) for score in evaluation.scores), exact_card(evaluation)]
        ),
        lengths="\n".join(length_row(group) for group in evaluation.by_length),
        worst_caption=worst_caption(len(lines), evaluation.n_lines),
        worst="\n".join(line_item(line) for line in lines),
        signatures="\n".join(f"<li>{escape(score.signature)}</li>" for score in evaluation.scores),
    )


def summary_line(evaluation: Evaluation, against: str | None) -> str:
    """Return the line below the title: the numbers of lines and references, and the name of the second system."""
    n_references = len(evaluation.sentences[0].references)
    parts = [f"{evaluation.n_lines:,} lines", f"{n_references} reference{'s' if n_references > 1 else ''}"]
    if against is not None:
        parts.append(f"compared with {escape(against)} by paired bootstrap; ± is half a 95 % confidence interval")
    return " · ".join(parts)


def worst_caption(n_shown: int, n_lines: int) -> str:
    if n_shown == 0:
        return "Every translation equals its reference."
    return (
        f"{n_shown:,} of {n_lines:,}, by the chrF of the line. <ins>Green</ins> is missing from the translation, "
        "<del>red</del> is in it and not in the reference."
    )


def score_card(score: MetricScore, note: str) -> str:
    """Return the HTML card (a small panel) of one metric; `note` is a remark such as "lower is better", or empty."""
    notes = [note] if note else []
    comparison = score.comparison
    if comparison is not None:
        notes = [
            f"± {comparison.interval:.1f}",
            f"other {comparison.other:.1f} ± {comparison.other_interval:.1f}",
            f"<i>{signed_difference(score.value, comparison.other)}</i>, {p_value_text(comparison.p_value)}",
            *notes,
        ]
    return card(score.name, score_text(score.value), notes)


def exact_card(evaluation: Evaluation) -> str:
    other = evaluation.other_exact
    notes = ["% of translations equal a reference"]
    if other is not None:
        notes += [f"other {other:.1f}", f"<i>{signed_difference(evaluation.exact, other)}</i>"]
    return card("exact", score_text(evaluation.exact), notes)


def card(name: str, number: str, notes: list[str]) -> str:
    paragraphs = "".join(f"<p>{note}</p>" for note in notes)
    return f"<li><span>{escape(name)}</span><b>{number}</b>{paragraphs}</li>"


def length_row(group: LengthGroup) -> str:
    """Return the table row of a group of lines of similar length: the scores of the group, and a bar for chrF."""
    numbers = f"{group.n_lines:,}", score_text(group.bleu), score_text(group.chrf), score_text(group.exact)
    cells = "".join(f"<td>{number}</td>" for number in (length_range(group), *numbers))
    label = f"chrF {group.chrf:.1f} of 100"
    bars = (
        f'<svg viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label="{label}">'
        f'<rect class="all" width="100" height="10"/><rect class="part" width="{group.chrf:.1f}" height="10"/></svg>'
    )
    return f'<tr>{cells}<td class="measure">{bars}</td></tr>'


def line_item(line: SentenceScore) -> str:
    """Return one translated line as a list item.

    Words of the reference that the translation lacks are <ins> elements. Words of the translation that the reference
    lacks are <del> elements.
    """
    reference = nearest_reference(line.hypothesis, line.references)
    wrong, missing = differences(line.hypothesis, reference)
    rows = [("reference", "", marked(missing, "ins")), ("translation", "", marked(wrong, "del"))]
    if line.source is not None:
        rows.insert(0, ("source", "aside", escape(line.source)))
    if line.other is not None:
        rows.append(("other", "aside", escape(line.other)))
    items = "".join(f'<dt>{name}</dt><dd class="{css_class}" dir="auto">{text}</dd>' for name, css_class, text in rows)
    return f'<li><p class="place">line <b>{line.line:,}</b> · chrF {line.chrf:.1f}</p><dl>{items}</dl></li>'


def marked(parts: list[Part], tag: str) -> str:
    """Return one of two compared texts as HTML; each part that differs is a `tag` element, such as <ins>."""
    return "".join(f"<{tag}>{escape(part.text)}</{tag}>" if part.differs else escape(part.text) for part in parts)
