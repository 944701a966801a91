"""The parts of a page: title, first sentence, sections, marks that the build fills in, and the Python that it shows.

A mark is a comment on a line of its own, which a reader of the Markdown does not see:

    <!-- picture: what it shows -->      the variable `pattern` that the page's own code leaves, drawn
    <!-- computed by -->                 what `explain_backend` says of that pattern
    <!-- reference: Name, Name -->       signature and docstring of public names
    <!-- kinds -->                       all pages of kinds, with their pictures
    <!-- backends -->                    kinds × backends
"""

import io
import re
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from doctest import DocTestParser
from typing import Any

MARK = re.compile(r"^<!-- (picture|computed by|reference|kinds|backends)(?:: ([^\n]*?))? -->$", re.MULTILINE)

FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Text:
    """A page as it is written."""

    markdown: str

    @property
    def title(self) -> str:
        """Its heading."""
        return self.markdown.split("\n", 1)[0].removeprefix("# ").strip()

    @property
    def sentence(self) -> str:
        """Its first paragraph."""
        return " ".join(self.markdown.split("\n\n")[1].split())

    @property
    def sections(self) -> dict[str, str]:
        """What stands under each heading of the second order."""
        _, *parts = re.split(r"^## (.+)\n", self.markdown, flags=re.MULTILINE)
        return dict(zip(parts[::2], map(str.strip, parts[1::2]), strict=True))

    @property
    def sessions(self) -> list[str]:
        """The Python that it shows, as sessions with their output."""
        return [code for language, code in FENCED.findall(self.markdown) if language == "pycon"]

    def marks(self, kind: str) -> list[str]:
        """What is written in its marks of a kind."""
        return [words for found, words in MARK.findall(self.markdown) if found == kind]

    @property
    def names(self) -> list[str]:
        """The public names that it is the reference of."""
        return [name.strip() for names in self.marks("reference") for name in names.split(",")]

    def filled(self, fill: Callable[[str, str], str]) -> str:
        """Its Markdown with every mark replaced by what `fill` makes of its kind and words."""
        return MARK.sub(lambda mark: fill(mark[1], mark[2] or ""), self.markdown)

    def run(self) -> dict[str, Any]:
        """The variables that its Python leaves."""
        scope: dict[str, Any] = {"__name__": "__page__"}
        with redirect_stdout(io.StringIO()):
            for session in self.sessions:
                for example in DocTestParser().get_examples(session):
                    exec(compile(example.source, self.title, "single", dont_inherit=True), scope)
        return scope
