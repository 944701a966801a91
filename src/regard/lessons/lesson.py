"""A lesson about attention: its texts in English and Korean, and the worked example or the sentence that it shows."""

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

from regard.errors import InputError, nearest

NAMES = (
    "looking-back",
    "query-key-value",
    "pattern",
    "temperature",
    "masks",
    "heads",
    "model",
    "transformer",
    "movement",
    "explanation",
    "translator",
)
"""The names of the lessons, in their order."""

Language = Literal["en", "ko"]

FORMULA = "= "
"""If a paragraph begins with these characters, it is a formula."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonText:
    """The texts of a lesson in one language. Words between backticks are shown as code."""

    title: str
    text: tuple[str, ...]
    """The paragraphs of the lesson. A paragraph that begins with FORMULA is a formula."""
    try_: tuple[str, ...]
    """Suggestions for the reader of the web page, such as which button to press."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """One lesson. It shows a worked example, MiniLM's attention to a sentence, a page stored as a file, or nothing."""

    name: str
    texts: dict[str, LessonText]
    """The texts by language: "en" and "ko"."""
    commands: tuple[str, ...]
    """Shell commands with which the reader can see more about the subject of the lesson."""
    views: tuple[str, ...]
    """The panels of the web page that the lesson shows: values of the attribute `data-view` of their HTML elements."""
    example: str | None = None
    """The name of a built-in worked example; None = the lesson shows no worked example."""
    query: int = 0
    """The position of the query that the worked example shows first."""
    sentence: str | None = None
    """The sentence that MiniLM reads; None = the lesson shows no sentence."""
    page: str | None = None
    """The file in the folder `texts` with a stored page: the attention of a model that is too large to be included in
    regard. None = the lesson shows no stored page."""
    head: str | None = None
    """The head that is shown first, such as "L3H1"; None = the head with a large weight on a distant key."""
    token: str | None = None
    """The text of the query token that is shown first; None = a query with a large weight on a distant key."""
    terminal: str | None = None
    """The part of the example or sentence that the terminal shows; None = all matrices, or the largest weights.

    "column sums" or "temperatures"    the weights with the sum of each column, or at several temperatures
    "heads" or "cut"                   the query's largest weight in each head, or its weights without its strongest key
    """


def read_lesson(name: str) -> Lesson:
    """Return a lesson by its name, or by its number as a text; the first lesson is "1"."""
    if name.isdecimal() and 1 <= int(name) <= len(NAMES):
        name = NAMES[int(name) - 1]
    if name not in NAMES:
        near = nearest(name, list(NAMES), n=1)[0]
        raise InputError(f"no lesson {name!r}; nearest: {near}. There are {', '.join(NAMES)}, or 1 to {len(NAMES)}.")
    given = tomllib.loads(files(__package__).joinpath("texts", f"{name}.toml").read_text(encoding="utf-8"))
    texts = {language: lesson_text(given.pop(language)) for language in ("en", "ko")}
    commands, views = tuple(given.pop("commands")), tuple(given.pop("views"))
    return Lesson(name=name, texts=texts, commands=commands, views=views, **given)


def lesson_text(given: dict[str, Any]) -> LessonText:
    return LessonText(title=given["title"], text=tuple(given["text"]), try_=tuple(given["try"]))
