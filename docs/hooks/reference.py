"""A public name's signature and docstring as Markdown."""

import html
import inspect
import re

import regard

FIELDS = ("Args", "Attributes", "Raises")
"""Parts of a docstring that list names with what is to be said of them."""


def reference(name: str) -> str:
    """One name: how it is called, and what it says of itself."""
    thing = getattr(regard, name)
    return f"### `{name}` {{ #reference-{name.lower()} }}\n\n```python\n{signature(name, thing)}\n```\n\n{prose(thing)}"


def signature(name: str, thing: object) -> str:
    """How it is called: on one line if it fits, else an argument a line."""
    if inspect.isabstract(thing):
        return f"class {name}"
    found = inspect.signature(thing)  # type: ignore[arg-type]
    given = [bare(str(parameter)) for parameter in starred(found)]
    result = "" if inspect.isclass(thing) else f" -> {bare(inspect.formatannotation(found.return_annotation))}"
    line = f"{name}({', '.join(given)}){result}"
    return line if len(line) <= 88 else "\n".join([f"{name}(", *(f"    {part}," for part in given), f"){result}"])


def starred(found: inspect.Signature) -> list[object]:
    """The parameters, with the star before those that are given by name alone."""
    parts: list[object] = []
    for parameter in found.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        parts.append(parameter)
    return parts


def bare(text: str) -> str:
    """Names without the modules that they come from."""
    return re.sub(r"\b(?:[a-z_]\w*\.)+(?=\w)", "", text).replace("'", '"')


def prose(thing: object) -> str:
    """A docstring in the house's form as Markdown."""
    blocks, markdown = re.split(r"\n\s*\n", inspect.cleandoc(thing.__doc__ or "")), []
    for block in blocks:
        heading = block.split(":", 1)[0]
        if block.startswith(">>>"):
            markdown.append(f"```pycon\n{block}\n```")
        elif block.startswith("    "):
            markdown.append(f"```text\n{inspect.cleandoc(block)}\n```")
        elif heading in FIELDS:
            markdown.append(f"**{heading}**\n\n" + "\n".join(listed(block.split("\n", 1)[1])))
        else:
            markdown.append(re.sub(r"^(Source|Departure):", r"**\1:**", escaped(block)))
    return "\n\n".join(markdown)


def listed(lines: str) -> list[str]:
    """Names with what is said of them, as a list."""
    text = re.sub(r"\n {8,}", " ", "\n" + lines).strip("\n")
    parts = (line.strip().split(": ", 1) for line in text.splitlines())
    return [f"- `{name}`: {escaped(said[0])}" if said else f"- {escaped(name)}" for name, *said in parts]


def escaped(text: str) -> str:
    """Text in which Markdown finds nothing of its own but `code`."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        part if part.startswith("`") else re.sub(r"([*_\[\]])", r"\\\1", html.escape(part, quote=False))
        for part in parts
    )
