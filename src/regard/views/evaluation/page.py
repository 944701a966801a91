"""An evaluation as one web page that needs no network and no script: scores, lengths, and the worst lines.

The texts may contain markup and the page may be opened by someone else, so all of them are escaped, and the page's
policy lets the browser load and run nothing and use nothing but the one style whose hash it names.
"""

import base64
import hashlib
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from regard.evaluation.records import Evaluation, LengthGroup, MetricScore, SentenceScore
from regard.views.evaluation.wording import chance, difference, note, shown, words_of, worst
from regard.views.evaluation.words import Part, differences, nearest_reference
from regard.views.output_file import writable, write_output

N_WORST = 200


def write_page(evaluation: Evaluation, path: Path, name: str, against: str | None = None) -> Path:
    """Write an evaluation as one web page.

    Args:
        name: what was measured, as the page's title.
        against: the second system's name, where there is one.

    Raises:
        InputError: the file cannot be written.
    """
    writable(path)
    return write_output(path, page(evaluation, name, against))


def page(evaluation: Evaluation, name: str, against: str | None = None) -> str:
    """An evaluation as HTML with nothing outside it."""
    views = files("regard.views")
    # The colours are those of every page of ours.
    style = "".join(
        views.joinpath(path).read_text(encoding="utf-8") for path in ("page/page.css", "evaluation/page.css")
    )
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    lines = worst(evaluation, N_WORST)
    return Template(views.joinpath("evaluation/page.html").read_text(encoding="utf-8")).substitute(
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
        title=escape(name),
        style=style,
        facts=facts(evaluation, against),
        scores="\n".join(
            [*(score_card(score, note(score, evaluation)) for score in evaluation.scores), exact_card(evaluation)]
        ),
        lengths="\n".join(length_row(group) for group in evaluation.by_length),
        worst_caption=worst_caption(len(lines), evaluation.n_lines),
        worst="\n".join(sentence(line) for line in lines),
        signatures="\n".join(f"<li>{escape(score.signature)}</li>" for score in evaluation.scores),
    )


def facts(evaluation: Evaluation, against: str | None) -> str:
    """Sizes, and what it is compared with, in one line."""
    n_references = len(evaluation.sentences[0].references)
    said = [f"{evaluation.n_lines:,} lines", f"{n_references} reference{'s' if n_references > 1 else ''}"]
    if against is not None:
        said.append(f"compared with {escape(against)} by paired bootstrap; ± is half a 95 % confidence interval")
    return " · ".join(said)


def worst_caption(n_shown: int, n_lines: int) -> str:
    """How many lines are shown, and what their colours mean."""
    if n_shown == 0:
        return "Every line is its reference."
    return (
        f"{n_shown:,} of {n_lines:,}, by their own chrF. <ins>Green</ins> is missing from the translation, "
        "<del>red</del> is in it and not in the reference."
    )


def score_card(score: MetricScore, remark: str) -> str:
    """One metric as a large number, and what the second system has."""
    notes = [remark] if remark else []
    comparison = score.comparison
    if comparison is not None:
        notes = [
            f"± {comparison.interval:.1f}",
            f"other {comparison.other:.1f} ± {comparison.other_interval:.1f}",
            f"<i>{difference(score.value, comparison.other)}</i>, {chance(comparison.p_value)}",
            *notes,
        ]
    return card(score.name, shown(score.value), notes)


def exact_card(evaluation: Evaluation) -> str:
    """How many lines are right to the letter."""
    other = evaluation.other_exact
    notes = ["% of lines are a reference to the letter"]
    if other is not None:
        notes += [f"other {other:.1f}", f"<i>{difference(evaluation.exact, other)}</i>"]
    return card("exact", shown(evaluation.exact), notes)


def card(name: str, number: str, notes: list[str]) -> str:
    """A number with its name and some notes in HTML."""
    said = "".join(f"<p>{note}</p>" for note in notes)
    return f"<li><span>{escape(name)}</span><b>{number}</b>{said}</li>"


def length_row(group: LengthGroup) -> str:
    """One row of the table by length."""
    numbers = f"{group.n_lines:,}", shown(group.bleu), shown(group.chrf), shown(group.exact)
    cells = "".join(f"<td>{number}</td>" for number in (words_of(group), *numbers))
    label = f"chrF {group.chrf:.1f} of 100"
    bars = (
        f'<svg viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label="{label}">'
        f'<rect class="all" width="100" height="10"/><rect class="part" width="{group.chrf:.1f}" height="10"/></svg>'
    )
    return f'<tr>{cells}<td class="measure">{bars}</td></tr>'


def sentence(line: SentenceScore) -> str:
    """One line: what was to be said and what was, with what differs marked."""
    reference = nearest_reference(line.hypothesis, line.references)
    wrong, missing = differences(line.hypothesis, reference)
    rows = [("reference", "", marked(missing, "ins")), ("translation", "", marked(wrong, "del"))]
    if line.source is not None:
        rows.insert(0, ("source", "aside", escape(line.source)))
    if line.other is not None:
        rows.append(("other", "aside", escape(line.other)))
    said = "".join(f'<dt>{name}</dt><dd class="{kind}" dir="auto">{text}</dd>' for name, kind, text in rows)
    return f'<li><p class="place">line <b>{line.line:,}</b> · chrF {line.chrf:.1f}</p><dl>{said}</dl></li>'


def marked(parts: list[Part], tag: str) -> str:
    """A text in HTML with the parts that differ in a tag."""
    return "".join(f"<{tag}>{escape(part.text)}</{tag}>" if part.differs else escape(part.text) for part in parts)
