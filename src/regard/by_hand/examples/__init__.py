"""The built-in examples of attention by hand: TOML files in this folder, whose first line is the title."""

import tomllib
from importlib.resources import files

from regard.errors import InputError, nearest

ORDER = ("self-attention", "causal", "one-word", "cross", "multi-head", "two-tokens-eight-heads")
"""The names of the examples, the simplest first."""


def names() -> list[str]:
    return list(ORDER)


def text(name: str) -> str:
    """Return the text of an example's TOML file.

    Raises:
        InputError: there is no example of this name; the message names the nearest.
    """
    if name not in ORDER:
        close = nearest(name, names())
        raise InputError(f"no example {name!r}; nearest: {', '.join(close)}. All of them: {', '.join(ORDER)}.")
    return (files(__name__) / f"{name}.toml").read_text(encoding="utf-8")


def titles() -> dict[str, str]:
    """Return the title of each example, by the name of the example."""
    return {name: tomllib.loads(text(name))["title"] for name in ORDER}
