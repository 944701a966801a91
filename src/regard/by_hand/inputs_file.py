"""Read the inputs of a worked example of attention from a TOML file.

title = "Three tokens"                     # the title above the matrices
source = "where the numbers come from"
tokens = ["The", "snake", "it"]            # the names of the rows of x; x1, x2, … if left out
x   = [[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]]                # one row for each token
W_q = [[1, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 1]]              # as many rows as x has columns; W_k, W_v too
b_q = [0, 0, 1]                            # added to Q; b_k and b_v too; may be left out
Q   = [[…]]                                # Q, K and V, instead of x, W_q, W_k and W_v
memory = [[…]]                             # the input of K and V, if not x (cross-attention)
memory_tokens = ["Je", "suis"]             # the names of the rows of memory
n_heads = 2                                # the columns of Q, K and V are split over the heads; 1 if left out
W_o = [[…]]                                # output parameters; no output if left out
scale = 0.5                                # factor of the products; 1 / √d_k if left out
mask = "causal"                            # or a matrix of true (may attend) and false, a row for each query
temperature = 1.0                          # divisor of the scores
"""

import math
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float

from regard.by_hand import examples
from regard.by_hand.example_inputs import MATRICES, ExampleInputs, checked_temperature
from regard.errors import InputError, counted, missing_file, nearest, reason
from regard.tracing.tokens.readable_tokens import Token

BIASES = ("b_q", "b_k", "b_v")

KEYS = ("title", "source", "tokens", "memory_tokens", *MATRICES, "n_heads", "scale", "mask", "temperature")


def read_inputs(path: Path) -> ExampleInputs:
    try:
        text = path.read_bytes().decode().removeprefix("\ufeff")
    except FileNotFoundError as error:
        if path.name in examples.NAMES:
            raise InputError(
                f"there is no file {path}; the built-in example of that name is shown with --example {path.name}."
            ) from error
        raise InputError(
            f"{missing_file(path)}; name a TOML file of numbers, take a built-in example (--list names them), or give "
            "a text with --text."
        ) from error
    except OSError as error:
        raise InputError(f"cannot read {path}: {reason(error)}; name a TOML file.") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise InputError(f"{path} is not text in UTF-8 (line {line}); save it as such.") from error
    return parse_inputs(text, str(path), path.stem)


def built_in_inputs(name: str) -> ExampleInputs:
    return parse_inputs(examples.text(name), f"{name}.toml", name)


def parse_inputs(text: str, file: str, title: str) -> ExampleInputs:
    """Read the TOML text of an example. Messages name it `file`; `title` is used if the text has no title."""
    try:
        given = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # RecursionError: deeply nested brackets
        raise InputError(f"{file} is not TOML: {str(error)[0].lower()}{str(error)[1:]}.") from error
    for key in given:
        if key not in KEYS:
            same_letters = [valid for valid in KEYS if valid.casefold() == key.casefold()]
            suggestion = (same_letters or nearest(key, list(KEYS), n=1))[0]
            raise InputError(f"{file} has the unknown key {key!r}; nearest: {suggestion}.")
    return ExampleInputs(
        title=read_text("title", given) or title,
        source=read_text("source", given),
        matrices={name: read_matrix(name, given[name]) for name in MATRICES if name in given},
        tokens=read_tokens("tokens", given),
        memory_tokens=read_tokens("memory_tokens", given),
        n_heads=read_count("n_heads", given),
        scale=read_number(given["scale"], "scale") if "scale" in given else None,
        mask=read_mask(given),
        temperature=checked_temperature(read_number(given.get("temperature", 1.0), "temperature")),
    )


def read_matrix(name: str, rows: Any) -> Float[np.ndarray, "rows columns"]:
    """Return a value of a TOML file as a matrix; the list of numbers of a bias becomes a matrix of one row."""
    if name in BIASES:
        if not isinstance(rows, list) or not rows or any(isinstance(entry, list) for entry in rows):
            raise InputError(f"{name} must be one row of numbers, like [1, 0, 2].")
        rows = [rows]
    return np.array(read_cells(name, rows, read_number), dtype=np.float64)


def read_mask(given: dict[str, Any]) -> Literal["causal"] | Bool[np.ndarray, "queries keys"] | None:
    """Return the mask of a TOML file, "causal" or a boolean matrix, True = may attend; None if the file has none."""
    if "mask" not in given:
        return None
    if isinstance(given["mask"], str):
        return named_mask(given["mask"])
    return np.array(read_cells("mask", given["mask"], read_flag), dtype=bool)


def named_mask(name: str) -> Literal["causal"]:
    if name != "causal":
        raise InputError(
            f"no mask {name!r}; there is causal (no attention to later tokens), or in a file rows of true and false."
        )
    return "causal"


def read_cells(name: str, rows: Any, read: Callable[[Any, str], Any]) -> list[list[Any]]:
    """Return the rows of the matrix `name` in a TOML file, with each entry converted by `read`.

    `read` gets the entry, and a text for error messages that says where the entry is, such as "x, row 1, column 2".
    """
    if not isinstance(rows, list) or not rows or not all(isinstance(row, list) for row in rows):
        raise InputError(f"{name} must be a matrix, a list of rows of the same length, like [[1, 0], [0, 1]].")
    for number, row in enumerate(rows, 1):
        if not row:
            raise InputError(f"{name}, row {number} is empty; every row must have at least one number.")
        if len(row) != len(rows[0]):
            raise InputError(
                f"{name}, row {number} has {counted(len(row), 'number')} and row 1 has {len(rows[0])}; "
                "all rows must have the same number of entries."
            )
    return [
        [read(cell, f"{name}, row {number}, column {column}") for column, cell in enumerate(row, 1)]
        for number, row in enumerate(rows, 1)
    ]


def read_number(cell: Any, place: str) -> float:
    if isinstance(cell, bool) or not isinstance(cell, int | float):
        raise InputError(f"{place}: {shortened(cell)} is not a number.")
    if isinstance(cell, int) and cell.bit_length() > 1023:
        raise InputError(f"{place}: the number is too large for a float64, which ends at 1.8e308.")
    if not math.isfinite(cell):
        raise InputError(f"{place}: {cell} is not a finite number; every number must be.")
    return float(cell)


def read_flag(cell: Any, place: str) -> bool:
    if not isinstance(cell, bool):
        raise InputError(f"{place}: {shortened(cell)} is not true or false (true = may attend).")
    return cell


def read_count(name: str, given: dict[str, Any]) -> int:
    value = given.get(name, 1)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{name} = {shortened(value)} must be a whole number from 1.")
    return value


def read_text(name: str, given: dict[str, Any]) -> str:
    value = given.get(name, "")
    if not isinstance(value, str):
        raise InputError(f"{name} = {shortened(value)} must be a text in quotes.")
    return " ".join(value.split())


def read_tokens(name: str, given: dict[str, Any]) -> tuple[Token, ...] | None:
    if name not in given:
        return None
    texts = given[name]
    if not isinstance(texts, list) or not all(isinstance(text, str) and text.strip() for text in texts):
        raise InputError(f'{name} must be a list of words in quotes, like ["The", "snake"].')
    return tuple(Token(text=" ".join(text.split()), piece=text) for text in texts)


def shortened(value: Any) -> str:
    """Return a value as text of at most 40 characters for a message; booleans as TOML writes them: true, false."""
    text = repr(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 40 else text[:39] + "…"
