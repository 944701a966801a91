"""All lessons as one web page. It needs no network, and has the panels of the page that shows a model's attention."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from regard.by_hand.work_out import worked_example
from regard.lessons.lesson import NAMES, Lesson, read_lesson
from regard.tracing.focus import focus_on
from regard.tracing.for_page import trace_for_page
from regard.tracing.model_loading import LoadedModel, load
from regard.views.output_file import check_writable, write_output
from regard.views.page import document
from regard.views.page.data import page_data
from regard.views.page.worked import worked_data


def write_course(path: Path, first: Lesson | None = None, language: str | None = None, site: str | None = None) -> Path:
    """Write all lessons as one web page, and return the path.

    Args:
        first: the lesson that the page shows first; None = lesson 1.
        language: the language that the page shows first, "en" or "ko"; None = the language of the browser.
        site: the address of the first page of a site, to which the course links; None = no link.

    Raises:
        InputError: MiniLM is not installed and cannot be downloaded, or the file cannot be written.
    """
    check_writable(path)
    return write_output(path, document(course_data(load(), first, language, site), "Attention in eleven lessons"))


def course_data(
    model: LoadedModel, first: Lesson | None = None, language: str | None = None, site: str | None = None
) -> dict[str, Any]:
    """Return the JSON data of the page, which `Course` in front/src/state/course.ts describes; `model` is MiniLM."""
    records, keys, traces = [], [], []
    for name in NAMES:
        lesson = read_lesson(name)
        key = attention_key(lesson)
        if key is not None and key not in keys:
            keys.append(key)
            traces.append(trace_data(lesson, model))
        records.append(lesson_record(lesson, None if key is None else keys.index(key)))
    return {
        "lessons": records,
        "traces": traces,
        "first": NAMES.index(first.name) if first else 0,
        "language": language,
        "site": site,
    }


def attention_key(lesson: Lesson) -> tuple[str | int | None, ...] | None:
    """Return a key for the attention that a lesson shows; None if the lesson shows no attention.

    A lesson shows the attention of a worked example, of MiniLM to a sentence, or of a page that is stored as a file.
    Lessons with the same key show the same attention, which the page contains only once.
    """
    if lesson.example is None and lesson.sentence is None and lesson.page is None:
        return None
    return lesson.example, lesson.query, lesson.sentence, lesson.head, lesson.token, lesson.page


def lesson_record(lesson: Lesson, trace: int | None) -> dict[str, Any]:
    """Return a lesson as JSON data; `trace` is the index of its attention in the "traces" of the page, or None."""
    return {
        "name": lesson.name,
        "views": lesson.views,
        "commands": lesson.commands,
        "trace": trace,
        "texts": {
            language: {"title": texts.title, "text": texts.text, "try": texts.try_}
            for language, texts in lesson.texts.items()
        },
    }


def trace_data(lesson: Lesson, model: LoadedModel) -> dict[str, Any]:
    if lesson.example is not None:
        return worked_data(worked_example(lesson.example, lesson.query))
    if lesson.page is not None:
        stored: dict[str, Any] = json.loads(files("regard.lessons").joinpath("texts", lesson.page).read_text("utf-8"))
        return stored
    trace = trace_for_page(model.model, lesson.sentence, tokenizer=model.tokenizer)
    return page_data(trace, focus_on(trace, token=lesson.token, head=lesson.head))
