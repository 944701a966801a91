"""The inputs of a worked example of attention: matrices and settings, and the checks that they fit together.

    Q = x W_q + b_q        K = x W_k + b_k        V = x W_v + b_v

Q, K and V may also be given directly. In cross-attention, K and V come from `memory` instead of x. The biases b_q,
b_k, b_v and the output parameters W_o may be left out.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float

from regard.attention.normalise.temperature import check_temperature
from regard.errors import InputError, counted
from regard.tracing.tokens.readable_tokens import Token

PROJECTED = ("x", "W_q", "W_k", "W_v")  # Q, K and V are computed from these matrices
OPTIONAL = ("memory", "b_q", "b_k", "b_v")  # matrices that may be given with x, W_q, W_k and W_v

DIRECT = ("Q", "K", "V")

MATRICES = ("x", "memory", "W_q", "W_k", "W_v", "b_q", "b_k", "b_v", "Q", "K", "V", "W_o")
"""The names of all matrices that may be given, in the order in which they are shown; a bias is a matrix of one row."""

MOST_WEIGHTS = 4096 * 4096
"""The largest number of weights in a worked example.

About five matrices with this number of entries are in memory at once, and each takes 128 MiB.
"""

ADVICE = "give x with W_q, W_k and W_v, or Q, K and V themselves"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExampleInputs:
    """The matrices and settings of one attention layer, or of one head, from which a worked example is computed.

    Attributes:
        matrices: the given matrices, by their names in `MATRICES`.
        tokens: the names of the queries; None = x1, x2, …
        memory_tokens: the names of the keys, if the keys are other tokens than the queries; None = m1, m2, …
        n_heads: the number of heads over which the columns of Q, K and V are split.
        scale: the factor of the dot products of queries and keys; None = 1 / √d_k.
        softcap: a score s becomes softcap · tanh(s / softcap); None = scores are not changed.
        bias: a matrix for each head, or one for all heads, which is added to the scores; None = no bias.
        mask: "causal" = no query attends to later tokens; a matrix of booleans: True = the query may attend to the key;
            None = every query may attend to every key.
        temperature: the divisor of the scores; 0 = all weight on the largest, shared by equal ones.
        sinks: for each head, one more score in every softmax, which belongs to no key; None = no sinks.
        source: a text that says where the matrices come from.
        notes: lines of text that are printed with the matrices.

    Raises:
        InputError: a matrix is missing, or the matrices include both x and Q, or their sizes do not fit together.
    """

    title: str
    matrices: Mapping[str, Float[np.ndarray, "_ _"]]
    tokens: tuple[Token, ...] | None = None
    memory_tokens: tuple[Token, ...] | None = None
    n_heads: int = 1
    scale: float | None = None
    softcap: float | None = None
    bias: Float[np.ndarray, "#heads queries keys"] | None = None
    mask: Literal["causal"] | Bool[np.ndarray, "_ _"] | None = None
    temperature: float = 1.0
    sinks: tuple[float, ...] | None = None
    source: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_names(self.matrices)
        check_sizes(self.matrices)
        check_heads(self.matrices, self.n_heads)
        check_tokens(self)
        check_mask(self)
        check_n_weights(self)

    @property
    def n_queries(self) -> int:
        return len(self.matrices["x" if "x" in self.matrices else "Q"])

    @property
    def n_keys(self) -> int:
        return len(self.matrices[self.keys_from])

    @property
    def keys_from(self) -> str:
        """The name of the given matrix with a row for each key: "memory", "x" or, if Q, K and V are given, "K"."""
        return next(name for name in ("memory", "x", "K") if name in self.matrices)

    @property
    def is_cross_attention(self) -> bool:
        return "memory" in self.matrices or self.memory_tokens is not None or self.n_queries != self.n_keys

    @property
    def queries(self) -> tuple[Token, ...]:
        return self.tokens or numbered_tokens("x", self.n_queries)

    @property
    def keys(self) -> tuple[Token, ...]:
        return (self.memory_tokens or numbered_tokens("m", self.n_keys)) if self.is_cross_attention else self.queries

    @property
    def query_texts(self) -> tuple[str, ...]:
        return tuple(token.text for token in self.queries)

    @property
    def key_texts(self) -> tuple[str, ...]:
        return tuple(token.text for token in self.keys)

    @property
    def keep(self) -> Bool[np.ndarray, "queries keys"] | None:
        """The mask as a matrix, True = may attend; None = every query may attend to every key."""
        return self.causal_matrix() if isinstance(self.mask, str) else self.mask

    def causal_matrix(self) -> Bool[np.ndarray, "queries keys"]:
        return np.tri(self.n_queries, self.n_keys, dtype=bool)

    def changed(self, *, temperature: float | None = None, causal: bool = False) -> "ExampleInputs":
        """Return a copy with another temperature, with a causal mask besides its own mask, or with both."""
        new_temperature = self.temperature if temperature is None else checked_temperature(temperature)
        new_mask = self.mask
        if causal:
            new_mask = "causal" if self.keep is None else self.keep & self.causal_matrix()
        return replace(self, temperature=new_temperature, mask=new_mask)


def numbered_tokens(letter: str, count: int) -> tuple[Token, ...]:
    return tuple(Token(text=f"{letter}{n}", piece=f"{letter}{n}") for n in range(1, count + 1))


def checked_temperature(temperature: float) -> float:
    try:
        check_temperature(temperature)
    except ValueError as error:
        raise InputError(str(error)) from error
    return temperature


# Checks


def check_names(given: Collection[str]) -> None:
    direct = [name for name in DIRECT if name in given]
    projected = [name for name in (*PROJECTED, *OPTIONAL) if name in given]
    if direct and projected:
        direct_names, projected_names = joined_names(direct), joined_names(projected)
        both = f"{direct_names} {is_or_are(direct)} given and so {is_or_are(projected)} {projected_names}"
        raise InputError(f"{both}; {ADVICE}, not both.")
    required = DIRECT if direct else PROJECTED
    if missing := [name for name in required if name not in given]:
        raise InputError(f"{joined_names(missing)} {is_or_are(missing)} missing; {ADVICE}.")


def check_sizes(matrices: Mapping[str, np.ndarray]) -> None:
    size = {name: tuple(matrix.shape) for name, matrix in matrices.items()}
    embedding = "one for each number of a token's embedding"
    if "x" in size:
        memory = "memory" if "memory" in size else "x"
        for name, source in (("W_q", "x"), ("W_k", memory), ("W_v", memory)):
            check_size(size, name, source, rows=size[source][1], why=embedding)
        check_size(size, "W_k", "W_q", columns=size["W_q"][1], why="so that each query can be multiplied with each key")
        for letter in "qkv":
            if f"b_{letter}" in size:
                why = f"one for each column of W_{letter}"
                check_size(size, f"b_{letter}", f"W_{letter}", rows=1, columns=size[f"W_{letter}"][1], why=why)
        d_value = size["W_v"][1]
    else:
        check_size(size, "K", "Q", columns=size["Q"][1], why="so that each query can be multiplied with each key")
        check_size(size, "V", "K", rows=size["K"][0], why="one for each key")
        d_value = size["V"][1]
    if "W_o" in size:
        n_queries = size["x" if "x" in size else "Q"][0]
        size["the context"] = (n_queries, d_value)  # no given matrix, but the message of check_size names it
        check_size(size, "W_o", "the context", rows=d_value, why="one for each number of a context")


def check_size(
    size: Mapping[str, tuple[int, ...]],
    name: str,
    other: str,
    *,
    rows: int | None = None,
    columns: int | None = None,
    why: str,
) -> None:
    """Raise InputError unless the matrix `name` has these numbers of rows and columns (None = any), to fit `other`."""
    given = size[name]
    required = (given[0] if rows is None else rows, given[1] if columns is None else columns)
    if given != required:
        wanted = counted(required[0], "row") if given[0] != required[0] else counted(required[1], "column")
        raise InputError(
            f"{name} is {size_text(given)}, but {other} is {size_text(size[other])}: "
            f"{name} must have {wanted}, {why} ({size_text(required)} would fit)."
        )


def check_heads(matrices: Mapping[str, np.ndarray], n_heads: int) -> None:
    query, value = ("W_q", "W_v") if "x" in matrices else ("Q", "V")
    widths = {"Q": matrices[query].shape[1], "V": matrices[value].shape[1]}
    largest = math.gcd(*widths.values())
    possible = [count for count in range(1, largest + 1) if largest % count == 0]
    if n_heads not in possible:
        columns = " and ".join(f"{name}'s {counted(width, 'column')}" for name, width in widths.items())
        raise InputError(
            f"n_heads = {n_heads} does not split {columns} into equal parts; "
            f"head counts that do: {', '.join(map(str, possible))}."
        )


def check_tokens(inputs: ExampleInputs) -> None:
    if inputs.memory_tokens is not None and inputs.keys_from == "x":
        raise InputError("memory_tokens names the rows of memory, but there is no memory; give it, or leave them out.")
    x = "x" if "x" in inputs.matrices else "Q"
    for name, tokens, matrix, n_rows in (
        ("tokens", inputs.tokens, x, inputs.n_queries),
        ("memory_tokens", inputs.memory_tokens, inputs.keys_from, inputs.n_keys),
    ):
        if tokens is not None and len(tokens) != n_rows:
            raise InputError(
                f"{name} has {counted(len(tokens), 'name')}, but {matrix} has {counted(n_rows, 'row')}; "
                "give one name for each row."
            )


def check_mask(inputs: ExampleInputs) -> None:
    required = (inputs.n_queries, inputs.n_keys)
    if isinstance(inputs.mask, np.ndarray) and inputs.mask.shape != required:
        raise InputError(
            f"mask is {size_text(inputs.mask.shape)}, but there are {counted(inputs.n_queries, 'query')} and "
            f"{counted(inputs.n_keys, 'key')}: it must be {size_text(required)}, one row for each query."
        )
    if isinstance(inputs.mask, str) and inputs.is_cross_attention:
        raise InputError(
            "a causal mask needs queries and keys to be the same tokens in the same order, and here the keys are other "
            "tokens; leave the mask out, or give a matrix of true and false."
        )


def check_n_weights(inputs: ExampleInputs) -> None:
    n_weights = inputs.n_heads * inputs.n_queries * inputs.n_keys
    if n_weights > MOST_WEIGHTS:
        raise InputError(
            f"{counted(inputs.n_queries, 'query')} and {counted(inputs.n_keys, 'key')} in "
            f"{counted(inputs.n_heads, 'head')} give {n_weights:,} scores; a worked example has at most "
            f"{MOST_WEIGHTS:,} (4,096 x 4,096); give fewer tokens."
        )


# Words for messages


def size_text(size: tuple[int, ...]) -> str:
    return " x ".join(map(str, size))


def joined_names(names: list[str]) -> str:
    """Return names as a list for a sentence, with "and" before the last.

    >>> joined_names(["Q", "K", "V"])
    'Q, K and V'
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def is_or_are(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"
