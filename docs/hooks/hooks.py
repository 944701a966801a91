"""What MkDocs calls while it builds the site: pictures, tables and references are made from the code itself.

Pages are written by hand; their Python runs, and the `pattern` that it leaves is what their picture shows. Nothing that
is made here is kept beside the pages.
"""

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from posixpath import relpath
from typing import Any

import backends
import torch
from drawing import pictures
from equation import typeset
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from page import Text
from reference import reference

import regard
from regard import Pattern

SENTENCE = "The snake is very dangerous because it has a venom."

GROUPS = {"scores": "Scores", "positions": "Positions", "masks": "Masks", "normalise": "Normalisers", "heads": "Heads"}
"""The folders of kinds, in their order."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A page of a kind of attention, and the pattern that its code leaves."""

    path: PurePosixPath
    text: Text
    pattern: Pattern

    @property
    def group(self) -> str:
        """The folder that it lies in."""
        return self.path.parent.name

    def picture(self, page: PurePosixPath, alt: str) -> str:
        """Its picture as Markdown on some page: for light and for dark."""
        stem = relpath(self.path.with_suffix(""), page.parent)
        shape = "{ .several }" if self.pattern.shape[0] * self.pattern.n_heads > 1 else ""
        return "".join(f"![{alt}]({stem}-{scheme}.svg#only-{scheme}){shape}" for scheme in ("light", "dark"))


KINDS: dict[str, Kind] = {}
"""The kinds of the site that is being built, by their page's path, in the order of the navigation."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Run every kind's page, and add the pictures of what it leaves."""
    torch.set_num_threads(1)
    KINDS.clear()
    for path in filter(is_kind, paths_in(config.nav)):
        file = files.get_file_from_path(path)
        if file is None:
            continue  # MkDocs itself says which page of the navigation is not there
        text = Text(file.content_string)
        kind = KINDS[path] = Kind(PurePosixPath(path), text, text.run()["pattern"])
        for scheme, svg in pictures(kind.pattern).items():
            files.append(File.generated(config, f"{kind.path.with_suffix('')}-{scheme}.svg", content=svg))
    files.append(File.generated(config, "snake.html", content=snake()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Fill the marks of a page, and draw its equations."""
    path = PurePosixPath(page.file.src_uri)

    def fill(mark: str, words: str) -> str:
        match mark:
            case "picture":
                drawn = KINDS[str(path)].picture(path, words)
                return f"<figure markdown>\n{drawn}\n<figcaption>{words}</figcaption>\n</figure>"
            case "computed by":
                return backends.sentence(KINDS[str(path)].pattern)
            case "reference":
                return "\n\n".join(reference(name.strip()) for name in words.split(","))
            case "kinds":
                return gallery(path)
            case _:
                return backends.table(by_group(path))

    return typeset(Text(markdown).filled(fill))


def snake() -> str:
    """The page that `regard look --html` writes."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        written = regard.trace("MiniLM", SENTENCE).html(f"{folder}/snake.html", token="it", head="L3H1")
        return written.read_text(encoding="utf-8")


def gallery(page: PurePosixPath) -> str:
    """Every kind, group by group: picture, name and sentence."""
    parts = []
    for group, title in GROUPS.items():
        kinds = [kind for kind in KINDS.values() if kind.group == group]
        cards = (
            f"-   [{kind.picture(page, '')} **{kind.text.title}**]({relpath(kind.path, page.parent)})\n\n"
            f"    {kind.text.sentence}"
            for kind in kinds
        )
        parts.append(f'### {title}\n\n<div class="kinds" markdown>\n\n' + "\n\n".join(cards) + "\n\n</div>")
    return "\n\n".join(parts)


def by_group(page: PurePosixPath) -> dict[str, dict[str, Pattern]]:
    """The kinds' patterns under links to their pages, group by group."""
    groups: dict[str, dict[str, Pattern]] = {title: {} for title in GROUPS.values()}
    for kind in KINDS.values():
        link = f"[{kind.text.title}]({relpath(kind.path, page.parent)})"
        groups[GROUPS[kind.group]][link] = kind.pattern
    return groups


def is_kind(path: str) -> bool:
    """Whether a page is that of a kind of attention."""
    return re.fullmatch(rf"attention/({'|'.join(GROUPS)})/[\w-]+\.md", path) is not None


def paths_in(nav: Any) -> list[str]:
    """The pages of the navigation, in its order."""
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav or ()
    return [path for part in parts for path in paths_in(part)]
