"""A lesson about attention: texts in English and Korean, and the worked example or the sentence that it shows."""

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

from regard.errors import InputError

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
"""The characters with which a paragraph begins that is a formula."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonText:
    """The texts of a lesson in one language; words between backticks are tokens or code."""

    title: str
    text: tuple[str, ...]
    """The paragraphs; one that begins with FORMULA is a formula."""
    try_: tuple[str, ...]
    """Suggestions for the reader of the web page, such as which button to press."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """One lesson; it shows a worked example, or MiniLM's attention to a sentence, or neither."""

    name: str
    texts: dict[str, LessonText]
    """The texts by language, "en" and "ko"."""
    commands: tuple[str, ...]
    """Shell commands that show more of the subject."""
    views: tuple[str, ...]
    """The views of the web page that the lesson shows, as their elements name them in `data-view`."""
    example: str | None = None
    """The name of a built-in worked example."""
    query: int = 0
    """The query of the example that is shown first."""
    sentence: str | None = None
    """The sentence that MiniLM reads."""
    head: str | None = None
    """The head that is shown first, such as "L3H1"."""
    token: str | None = None
    """The token of the sentence that is shown first."""


def lesson(name: str) -> Lesson:
    """Return the lesson with a name, or with a number from 1; raise InputError if there is none."""
    if name.isdecimal() and 1 <= int(name) <= len(NAMES):
        name = NAMES[int(name) - 1]
    if name not in NAMES:
        raise InputError(f"no lesson {name!r}; there are {', '.join(NAMES)}, or 1 to {len(NAMES)}.")
    given = tomllib.loads(files(__package__).joinpath("texts", f"{name}.toml").read_text(encoding="utf-8"))
    texts = {language: lesson_text(given.pop(language)) for language in ("en", "ko")}
    commands, views = tuple(given.pop("commands")), tuple(given.pop("views"))
    return Lesson(name=name, texts=texts, commands=commands, views=views, **given)


def lesson_text(given: dict[str, Any]) -> LessonText:
    return LessonText(title=given["title"], text=tuple(given["text"]), try_=tuple(given["try"]))
