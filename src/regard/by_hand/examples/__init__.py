"""The built-in worked examples of attention: TOML files in this folder. The first line of each file is its title."""

import tomllib
from importlib.resources import files

from regard.errors import InputError, nearest

NAMES = ("self-attention", "causal", "one-word", "cross", "multi-head", "two-tokens-eight-heads")


def text(name: str) -> str:
    if name not in NAMES:
        close = nearest(name, list(NAMES))
        raise InputError(f"no example {name!r}; nearest: {', '.join(close)}. All of them: {', '.join(NAMES)}.")
    return (files(__name__) / f"{name}.toml").read_text(encoding="utf-8")


def titles() -> dict[str, str]:
    """Return the title of each example, by the name of the example."""
    return {name: tomllib.loads(text(name))["title"] for name in NAMES}
