"""The built-in examples of attention by hand, each a TOML file beside this one that opens with its title."""

import tomllib
from importlib.resources import files

from regard.errors import InputError, nearest

ORDER = ("self-attention", "causal", "one-word", "cross", "multi-head", "two-tokens-eight-heads")
"""From the simplest on."""


def names() -> list[str]:
    """What the examples are called."""
    return list(ORDER)


def text(name: str) -> str:
    """One example as it stands in its file.

    Raises:
        InputError: there is no such example; the message names the nearest.
    """
    if name not in ORDER:
        close = nearest(name, names())
        raise InputError(f"no example {name!r}; nearest: {', '.join(close)}. All of them: {', '.join(ORDER)}.")
    return (files(__name__) / f"{name}.toml").read_text(encoding="utf-8")


def titles() -> dict[str, str]:
    """One line about each example."""
    return {name: tomllib.loads(text(name))["title"] for name in ORDER}
