"""The page of all lessons in a real browser: each lesson shows its text and its views, and a link opens it."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from axe import violations
from playwright.sync_api import Page, expect

from regard.lessons.course_page import course_data
from regard.lessons.lesson import NAMES, read_lesson
from regard.tracing.model_loading import LoadedModel
from regard.views.page import document, page_title


@pytest.fixture(scope="module")
def course(minilm: LoadedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("course") / "course.html"
    path.write_text(document(course_data(minilm), "course"), encoding="utf-8")
    return path


def test_a_reader_goes_through_all_lessons(opened: Callable[..., Page], course: Path) -> None:
    page = opened(course)
    for name in NAMES:
        one = read_lesson(name)
        expect(page.locator("h1")).to_have_text(one.texts["en"].title)
        expect(page).to_have_title(page_title(one.texts["en"].title))
        for view in one.views:
            expect(page.locator(f"[data-view={view}]")).to_be_visible()
        expect(page.locator(".lesson-views > *")).to_have_count(len(one.views))
        offered = page.get_by_role("button", name="What if the head read elsewhere?")
        expect(offered).to_have_count(1 if {"sentence", "what-if"} <= {*one.views} else 0)
        assert page.locator("pre").inner_text().splitlines() == list(one.commands)
        if name in ("masks", "movement"):
            assert violations(page, "html" if name == "masks" else "main") == []
        if name != NAMES[-1]:
            page.locator(".turn button").last.click()


def test_a_link_opens_a_lesson_in_korean_with_its_numbers(opened: Callable[..., Page], course: Path) -> None:
    page = opened(course, address="#lesson=model&language=ko", width=360)
    expect(page.locator("h1")).to_have_text(read_lesson("model").texts["ko"].title)
    expect(page.locator("[data-view=strongest] li").first).to_contain_text("0.6741")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.locator("nav").first.get_by_role("button", name="4 · 온도").click()
    page.locator("[data-view=what-if] input[type=range]").fill("2")
    after = page.locator("[data-view=what-if] table.changes tbody td:nth-child(3)")
    expect(after).to_have_text(["0.3499", "0.2725", "0.2122", "0.1653"])


def test_no_option_of_a_command_is_broken_after_a_hyphen(opened: Callable[..., Page], course: Path) -> None:
    page = opened(course, address="#lesson=temperature", width=360)
    heights = page.locator("pre span").evaluate_all("spans => spans.map(span => span.getBoundingClientRect().height)")
    assert len(heights) == len(" ".join(read_lesson("temperature").commands).split())
    assert len({*heights}) == 1  # every word is on one line


def test_every_lesson_opens_at_the_first_step(opened: Callable[..., Page], course: Path) -> None:
    page = opened(course)
    current = page.locator("[data-view=steps] .stages button").first
    expect(current).to_have_attribute("aria-current", "step")
    page.locator("[data-view=steps]").get_by_role("button", name="next").click()
    expect(current).not_to_have_attribute("aria-current", "step")
    page.locator(".turn button").last.click()
    expect(page.locator("h1")).to_have_text(read_lesson(NAMES[1]).texts["en"].title)
    page.locator(".turn button").first.click()
    expect(current).to_have_attribute("aria-current", "step")


@pytest.mark.parametrize(("language", "quoted"), [("en", "“(.+?)”"), ("ko", "‘(.+?)’")])
def test_the_controls_that_lessons_name_exist(
    opened: Callable[..., Page], course: Path, language: str, quoted: str
) -> None:
    for name in NAMES:
        said = read_lesson(name).texts[language]
        page = opened(course, address=f"#lesson={name}&language={language}")
        expect(page.locator("h1")).to_have_text(said.title)
        for control in re.findall(quoted, " ".join(said.try_)):
            expect(page.locator(".lesson-views button", has_text=control).first).to_be_visible()
        page.goto("about:blank")  # so that this page cannot replace the address of the next
