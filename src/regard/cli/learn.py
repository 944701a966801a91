"""`regard learn`: a course about attention, in lessons."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.written_files import checked_outputs, print_written
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.lessons.lesson import Language, Lesson

WHAT_NEXT = {
    "en": "regard learn 1 shows the first one; regard learn --html course.html writes all of them as a page.",
    "ko": "첫 강의는 regard learn 1로 보고, regard learn --html course.html은 모든 강의를 웹 페이지 하나로 저장합니다.",
}
"""The line below the list of the lessons, by language."""

TEXT_WIDTH = 92
"""The largest width of a lesson's text, in columns of the terminal."""


def learn(
    name: Annotated[
        str | None, typer.Argument(metavar="LESSON", help="A lesson, by name or number.", show_default="list them")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write a page of all lessons, with live pictures, LESSON first.")
    ] = None,
    language: Annotated[
        str | None,
        typer.Option("--language", help="The language of the lessons: en or ko.", show_default="by your locale"),
    ] = None,
) -> None:
    """Learn what attention is and does, in eleven short lessons with numbers that you can follow.

    The page of --html has the same lessons with live pictures: choose a token, step through a computation, move the
    temperature, set an attention weight to 0.

    \b
    [bold]Examples[/bold]
      regard learn --html course.html
      regard learn
      regard learn query-key-value
      regard learn 5 --language ko
    """
    from regard.cli.progress import spinner
    from regard.lessons.lesson import NAMES, read_lesson

    language_shown = checked_language(language)
    chosen = None if name is None else read_lesson(name)
    outputs = checked_outputs(html=html)
    if html is not None:
        with spinner("writing the lessons"):
            from regard.lessons.course_page import write_course

            write_course(html, chosen, language)  # None = the browser's language
    elif chosen is None:
        list_lessons([read_lesson(name) for name in NAMES], language_shown)
    else:
        show_lesson(chosen, language_shown)
    print_written(outputs)


def checked_language(language: str | None) -> "Language":
    """Return the given language of the lessons, or else Korean in a Korean locale, or else English."""
    if language is None:
        locale = os.environ.get("LC_ALL") or os.environ.get("LC_MESSAGES") or os.environ.get("LANG") or ""
        return "ko" if locale.startswith("ko") else "en"
    if language not in ("en", "ko"):
        raise InputError(f"--language {language}: the lessons are in English and Korean; give en or ko.")
    return "ko" if language == "ko" else "en"


def list_lessons(lessons: "list[Lesson]", language: str) -> None:
    longest = max(len(lesson.name) for lesson in lessons)
    for number, lesson in enumerate(lessons, 1):
        print(f"{number:>3}  {lesson.name:<{longest}}  {lesson.texts[language].title}")
    print(f"\n{WHAT_NEXT[language]}")


def show_lesson(lesson: "Lesson", language: "Language") -> None:
    from rich.console import Console

    from regard.cli.progress import spinner
    from regard.lessons.lesson import FORMULA, NAMES
    from regard.lessons.terminal import show_attention

    lesson_text = lesson.texts[language]
    console = Console(highlight=False, markup=False)
    narrow = Console(highlight=False, markup=False, width=min(console.width, TEXT_WIDTH))
    console.rule(f"{NAMES.index(lesson.name) + 1}  {lesson_text.title}", align="left")
    for paragraph in lesson_text.text:
        if paragraph.startswith(FORMULA):
            narrow.print(f"\n    {paragraph.removeprefix(FORMULA)}")
        else:
            narrow.print(f"\n{paragraph.replace('`', '')}")
    console.print()
    traced = None
    if lesson.sentence is not None:
        with spinner("running MiniLM"):
            from regard.tracing.run import trace

            traced = trace("MiniLM", lesson.sentence)
    show_attention(lesson, traced, language)  # without a sentence, that of a worked example or a stored page
    console.print()
    for command in lesson.commands:
        console.print(f"  $ {command}", soft_wrap=True)
