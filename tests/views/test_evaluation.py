"""An evaluation as text and as a page: every number, what differs, markup, light and dark, phones."""

import io
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal
from rich.console import Console

from regard import InputError
from regard.evaluation.records import Comparison, Evaluation, LengthGroup, MetricScore, SentenceScore
from regard.views.evaluation.page import N_WORST, page, write_page
from regard.views.evaluation.text import show
from regard.views.evaluation.words import differences, nearest_reference


def line(number, chrf, hypothesis, reference, **more):
    exact = hypothesis == reference
    return SentenceScore(line=number, chrf=chrf, exact=exact, hypothesis=hypothesis, references=(reference,), **more)


def with_first(parts, **changes):
    """Return records of an evaluation, the first of them with some fields replaced."""
    return (replace(parts[0], **changes), *parts[1:])


@pytest.fixture
def one_system():
    values = {"BLEU": 31.44, "chrF2": 58.26, "TER": 44.0}
    return Evaluation(
        n_lines=1234,
        scores=tuple(
            MetricScore(name=name, value=value, signature=f"{name}|nrefs:1") for name, value in values.items()
        ),
        exact=12.5,
        other_exact=None,
        by_length=(
            LengthGroup(least=1, most=5, n_lines=1200, bleu=None, chrf=61.0, exact=13.0),
            LengthGroup(least=81, most=None, n_lines=34, bleu=17.1, chrf=40.0, exact=0.0),
        ),
        sentences=(
            line(1017, 3.21, "a red cat", "the black cat", source="die schwarze Katze"),
            line(2, 50.0, "two dogs", "two big dogs"),
            line(3, 100.0, "right", "right"),
        ),
    )


def compared(evaluation, above, exact_above):
    """An evaluation with a second system whose scores are lower by `above`."""
    scores = (
        replace(
            score,
            comparison=Comparison(
                other=score.value - above,
                interval=1.14,
                other_interval=0.91,
                p_value=0.000999 if score.name == "BLEU" else 0.25,
            ),
        )
        for score in evaluation.scores
    )
    return replace(
        evaluation,
        scores=tuple(scores),
        other_exact=evaluation.exact - exact_above,
        sentences=with_first(evaluation.sentences, other="a black cat"),
    )


@pytest.fixture
def two_systems(one_system):
    return compared(one_system, above=2.5, exact_above=2.5)


def printed(evaluation, n_worst=5, width=80):
    console = Console(file=io.StringIO(), width=width, highlight=False)
    show(evaluation, n_worst, console)
    return [text.rstrip() for text in console.file.getvalue().splitlines()]


# Text


def test_one_system_as_text(one_system):
    assert printed(one_system) == [
        "        score",
        "BLEU     31.4",
        "chrF2    58.3",
        "TER      44.0   lower is better",
        "exact    12.5   % of 1,234 lines",
        "",
        "by length, in words of the reference as BLEU counts them",
        "  words   lines   BLEU   chrF   exact",
        "    1–5   1,200      –   61.0    13.0   ████████████",
        "    81+      34   17.1   40.0     0.0   ████████",
        "",
        "the worst lines by chrF",
        "  line 1,017     chrF 3.2",
        "    source       die schwarze Katze",
        "    reference    the black cat",
        "    translation  a red cat",
        "  line 2         chrF 50.0",
        "    reference    two big dogs",
        "    translation  two dogs",
        "",
        "signatures",
        "  BLEU|nrefs:1",
        "  chrF2|nrefs:1",
        "  TER|nrefs:1",
    ]


def test_lines_too_short_for_bleu(one_system, two_systems):
    said = "no line has the four words that it counts together; see --tokenize char"
    one_system, two_systems = (replace(one, by_length=one.by_length[:1]) for one in (one_system, two_systems))
    assert printed(one_system, width=100)[1] == f"BLEU     31.4   {said}"
    assert said in page(one_system, "a")
    assert printed(two_systems, width=140)[1].endswith(f"p ≤ 0.001; {said}")


def test_two_systems_as_text(two_systems):
    lines = printed(two_systems)
    assert lines[:5] == [
        "             score        other   difference",
        "BLEU    31.4 ± 1.1   28.9 ± 0.9         +2.5   p ≤ 0.001",
        "chrF2   58.3 ± 1.1   55.8 ± 0.9         +2.5   p = 0.250",
        "TER     44.0 ± 1.1   41.5 ± 0.9         +2.5   p = 0.250; lower is better",
        "exact         12.5         10.0         +2.5   % of 1,234 lines",
    ]
    assert "    other        a black cat" in lines


def test_as_many_of_the_worst_lines_as_asked_for(one_system):
    assert [text for text in printed(one_system, n_worst=1) if text.startswith("  line")] == [
        "  line 1,017     chrF 3.2"
    ]
    assert not any("worst" in text for text in printed(one_system, n_worst=0))


def test_a_signature_stays_on_one_line(one_system):
    one_system = replace(one_system, scores=with_first(one_system.scores, signature="BLEU|" + "x" * 200))
    assert "  BLEU|" + "x" * 200 in printed(one_system, width=60)


def test_markup_of_rich_is_only_text(one_system):
    one_system = replace(one_system, sentences=with_first(one_system.sentences, hypothesis="[bold]a[/bold] [/]"))
    assert "    translation  [bold]a[/bold] [/]" in printed(one_system)


def test_control_characters_are_seen_and_do_nothing_to_the_terminal(two_systems):
    control = line(1, 3.0, "\x1b[31mred", "a \x07bell", source="\x1b]0;title", other="\x1b[2J")
    two_systems = replace(two_systems, sentences=(control,))
    text = "\n".join(printed(two_systems))
    assert not any(ord(letter) < 0x20 for letter in text if letter != "\n")
    assert all(shown in text for shown in ("‹1B›[31mred", "a ‹07›bell", "‹1B›]0;title", "‹1B›[2J"))


# Words


@given(st.text(alphabet="ab 漢.ก", max_size=20), st.text(alphabet="ab 漢.ก", max_size=20))
def test_parts_join_to_the_texts_and_equal_parts_are_equal(first, second):
    mine, theirs = differences(first, second)
    assert "".join(part.text for part in mine) == first
    assert "".join(part.text for part in theirs) == second
    same = [[part.text for part in parts if not part.differs] for parts in (mine, theirs)]
    assert same[0] == same[1]


@pytest.mark.parametrize(
    ("first", "second", "wrong", "missing"),
    [
        ("the cat sat", "the dog sat", ["cat"], ["dog"]),
        ("same", "same", [], []),
        ("", "all of it", [], ["all of it"]),
        ("他站在梯子上", "她站在梯子上", ["他"], ["她"]),
        ("뱀은 위험하다", "뱀은 무섭다", ["위험하다"], ["무섭다"]),
        ("it's", "it’s", ["'"], ["’"]),
    ],
)
def test_what_differs(first, second, wrong, missing):
    mine, theirs = differences(first, second)
    assert [part.text for part in mine if part.differs] == wrong
    assert [part.text for part in theirs if part.differs] == missing


def test_the_nearest_of_several_references():
    assert nearest_reference("a red cat", ["the dog", "a black cat", "a red cats"]) == "a black cat"
    assert nearest_reference("x", ["a", "b"]) == "a"


# The page


class Outline(HTMLParser):
    """Collects the tags of a page with their texts, and fails if tags are not closed in order."""

    void = ("meta", "link", "br", "img")

    def __init__(self, text):
        super().__init__()
        self.open, self.texts, self.tags = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if data.strip():
            self.texts.append((self.open[-1], data.strip()))

    def of(self, tag):
        return [text for one, text in self.texts if one == tag]


def test_every_number_is_on_the_page(two_systems):
    outline = Outline(page(two_systems, "system.de", "other.de"))
    assert outline.of("title") == ["system.de · regard"]
    assert outline.of("h1") == ["system.de"]
    assert "1,234 lines · 1 reference · compared with other.de by paired bootstrap" in outline.of("p")[1]
    assert outline.of("b")[:4] == ["31.4", "58.3", "44.0", "12.5"]
    assert outline.of("td") == ["1–5", "1,200", "–", "61.0", "13.0", "81+", "34", "17.1", "40.0", "0.0"]
    assert [attributes["width"] for tag, attributes in outline.tags if tag == "rect"] == ["100", "61.0", "100", "40.0"]
    assert {"± 1.1", "other 28.9 ± 0.9", ", p ≤ 0.001", ", p = 0.250"} <= set(outline.of("p"))
    assert [text for text in outline.of("li") if "|" in text] == ["BLEU|nrefs:1", "chrF2|nrefs:1", "TER|nrefs:1"]


def test_what_differs_is_marked_on_the_page(one_system):
    outline = Outline(page(one_system, "system.de"))
    assert outline.of("ins") == ["Green", "the", "black", "big"]
    assert outline.of("del") == ["red", "a", "red"]
    assert any(text.startswith("2 of 1,234, by the chrF of the line.") for text in outline.of("p"))


def test_a_page_of_lines_that_are_all_right(one_system):
    one_system = replace(one_system, sentences=one_system.sentences[2:])
    assert "Every translation equals its reference." in Outline(page(one_system, "x")).of("p")


def test_a_page_has_a_bounded_number_of_lines(one_system):
    one_system = replace(one_system, sentences=tuple(line(i, 10.0, "a", "b") for i in range(N_WORST + 1)))
    assert page(one_system, "x").count('class="place"') == N_WORST


def test_markup_is_only_text(one_system):
    evil = "<script>alert(1)</script> </dd> &amp; $title \"'"
    texts = {"hypothesis": evil, "references": (evil + " <b>",), "source": evil, "other": evil}
    sentences, scores = with_first(one_system.sentences, **texts), with_first(one_system.scores, signature=evil)
    one_system = replace(one_system, sentences=sentences, scores=scores)
    outline = Outline(page(one_system, evil, evil))
    assert {"script", "img"}.isdisjoint(tag for tag, _ in outline.tags)
    assert outline.of("h1") == [evil]
    assert outline.of("dd").count(evil) == 4  # source, reference, translation, other


def test_writing_where_one_cannot(one_system, tmp_path):
    assert refusal(InputError, write_page, one_system, tmp_path / "none" / "a.html", "x") == (
        f"cannot write {tmp_path}/none/a.html: there is no folder {tmp_path}/none; make it first or name another file."
    )


def test_a_phone_needs_no_sideways_scrolling_and_a_bar_is_as_long_as_its_score(opened, two_systems, tmp_path):
    two_systems = replace(two_systems, sentences=with_first(two_systems.sentences, source="Donaudampfschifffahrt" * 9))
    path = write_page(two_systems, tmp_path / "a.html", "system.de", "other.de")
    for dark in (False, True):
        shown = opened(path, width=400, height=800, dark=dark)
        assert shown.evaluate("() => document.documentElement.scrollWidth") == 400
        lightness = shown.evaluate("() => parseFloat(getComputedStyle(document.body).backgroundColor.split('(')[1])")
        assert (lightness < 0.3) == dark
    shown.set_viewport_size({"width": 1000, "height": 800})
    widths = shown.evaluate("() => [...document.querySelectorAll('rect')].map((r) => r.getBoundingClientRect().width)")
    assert widths[0] > 300
    assert widths[1] / widths[0] == pytest.approx(0.61, abs=0.01)
    assert widths[3] / widths[2] == pytest.approx(0.4, abs=0.01)


def test_an_evaluation_is_shown_without_torch():
    code = (
        "import sys, regard.evaluation.evaluate, regard.views.evaluation.page, regard.views.evaluation.text; "
        "print('torch' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


def test_the_policy_names_the_style(one_system):
    text = page(one_system, "x")
    assert re.search(r"default-src 'none'; style-src 'sha256-[A-Za-z0-9+/]{43}='", text)
    assert "style=" not in text.replace("<style>", "")


def test_a_line_of_other_spaces_is_no_reference_though_chrf_sees_none(one_system):
    spaces, right = line(1, 100.0, "나는 학생 입니다", "나는 학생입니다"), line(2, 100.0, "right", "right")
    one_system = replace(one_system, sentences=(spaces, right))
    assert "Every translation equals its reference." not in page(one_system, "spaces")
    assert any("line 1 " in text for text in printed(one_system))
    assert not any("line 2 " in text for text in printed(one_system))


def test_no_difference_has_no_minus(one_system):
    two_systems = compared(one_system, above=-0.03, exact_above=-0.04)
    body = page(two_systems, "alike", against="other").split("</style>")[1]
    assert "-0.0" not in body
    assert body.count("+0.0") == 4
    assert not any("-0.0" in text for text in printed(two_systems))
    assert sum("+0.0" in text for text in printed(two_systems)) == 4
