"""Tests of `regard learn`: the list of lessons, a lesson on the terminal, the page, refusals."""

import re
from pathlib import Path

import pytest
from cli_runner import output, refused
from rich.cells import cell_len

from regard.lessons.lesson import NAMES, read_lesson

pytestmark = pytest.mark.usefixtures("minilm_once")


def test_without_arguments_it_lists_the_lessons() -> None:
    lines = output("learn", "--language", "en").splitlines()
    assert [line.split()[1] for line in lines[: len(NAMES)]] == list(NAMES)
    hint = "regard learn 1 shows the first one; regard learn --html course.html writes all of them as a page."
    assert lines[-1] == hint


def test_a_lesson_has_its_text_its_numbers_and_its_commands() -> None:
    text = output("learn", "query-key-value", "--language", "en", columns=100)
    assert "2  Query, key and value: every number by hand" in text
    assert "    weights = softmax(Q Kᵀ / √d_k)        context = weights V\n" in text
    assert "x2  0.0009  0.9088  0.0903" in text
    assert "x2  1.9991  7.8141  0.2735" in text
    assert text.endswith("\n  $ regard explain\n  $ regard explain --example one-word\n")


def test_a_lesson_on_a_sentence_shows_where_the_head_looks() -> None:
    assert "snake  0.674  ██" in output("learn", "7", "--language", "en")
    assert "every head: the largest weight" in output("learn", "8", "--language", "en")


def test_the_lesson_on_a_translator_shows_which_word_looks_at_which() -> None:
    assert re.search(r"forty-two +thousand +and +seven\n +사만 +██ ", output("learn", "translator"))


@pytest.mark.parametrize("name", [name for name in NAMES if read_lesson(name).example])
def test_headings_of_a_worked_example_are_in_the_language_of_the_lesson(name: str) -> None:
    headings = re.findall("^── .+", output("learn", name, "--language", "ko"), re.MULTILINE)
    assert headings
    assert [line for line in headings if not re.search("[가-힣]", line) or cell_len(line) != 80] == []


ENGLISH = r"\b(tokens?|heads?|layers?|columns?|rows?|scaled|allowed|largest|looks|before|without|cut|to|sum)\b"
"""Words of the English views; the lessons themselves quote other English words."""


@pytest.mark.parametrize("name", NAMES)
def test_a_korean_lesson_shows_its_numbers_in_korean(name: str) -> None:
    printed = [line for line in output("learn", name, "--language", "ko").splitlines() if not line.startswith("  $ ")]
    assert [line for line in printed if re.search(ENGLISH, line)] == []
    assert re.search(ENGLISH, output("learn", name, "--language", "en"))


def test_no_lesson_on_the_terminal_speaks_of_a_picture() -> None:
    texts = " ".join(" ".join(read_lesson(name).texts[language].text) for name in NAMES for language in ("en", "ko"))
    assert re.findall("picture|그림", texts) == []


@pytest.mark.parametrize("name", ["pattern", "temperature", "model", "explanation"])
def test_the_terminal_shows_every_number_of_the_text(name: str) -> None:
    said = " ".join(read_lesson(name).texts["en"].text)
    shown = output("learn", name, "--language", "en").split("\n\n", 1)[1].replace(said, "")
    numbers = re.findall(r"\d+\.\d{3,}", said)
    below = "\n".join(shown.splitlines()[-30:])
    assert numbers
    assert [number for number in numbers if number not in below] == []


@pytest.mark.parametrize("variable", ["LC_ALL", "LANG"])
def test_the_language_is_that_of_the_locale(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    assert read_lesson("1").texts["en"].title in output("learn")
    monkeypatch.setenv(variable, "ko_KR.UTF-8")
    assert read_lesson("1").texts["ko"].title in output("learn")


def test_all_lessons_are_written_as_a_page(tmp_path: Path) -> None:
    page = tmp_path / "course.html"
    assert output("learn", "3", "--language", "ko", "--html", page).endswith(f"\nwrote {page}\n")
    assert '"first":2,"language":"ko"' in page.read_text(encoding="utf-8")


def test_a_language_and_a_lesson_that_do_not_exist_are_refused() -> None:
    assert refused("learn", "--language", "de") == (
        "--language de: the lessons are in English and Korean; give en or ko."
    )
    assert refused("learn", "13").startswith("no lesson '13'; nearest: looking-back. There are looking-back,")
