"""The numbers that attention by hand starts from, and the checks that they fit together.

    Q = x W_q + b_q        K = x W_k + b_k        V = x W_v + b_v

or Q, K and V themselves. In cross-attention K and V come from `memory` instead of x. The biases b_q, b_k, b_v and the
output parameters W_o may be left out.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from jaxtyping import Float
from torch import Tensor

from regard.attention.masks import Causal, Keep, Mask
from regard.attention.normalise.softmax import Softmax
from regard.attention.scores.dot import ScaledDot
from regard.errors import InputError, counted
from regard.tracing.readable_tokens import Token

PROJECTED = ("x", "W_q", "W_k", "W_v")
DIRECT = ("Q", "K", "V")
OPTIONAL = ("memory", "b_q", "b_k", "b_v")
MATRICES = ("x", "memory", "W_q", "W_k", "W_v", "b_q", "b_k", "b_v", "Q", "K", "V", "W_o")
"""Every matrix that may be given, in the order of display; a bias is a matrix of one row."""

CHOOSE = "give x with W_q, W_k and W_v, or Q, K and V themselves"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Numbers:
    """The inputs and parameters of one attention layer, or of one head.

    Attributes:
        matrices: by their names in `MATRICES`.
        tokens: the names of the queries; None = x1, x2, …
        memory_tokens: the names of the keys if they are other tokens than the queries; None = m1, m2, …
        n_heads: the number of heads over which the columns of Q, K and V are split.
        mask: which query may attend to which key; None = every query to every key.
        source: where the numbers come from.
        notes: remarks to print with the numbers, a line each.

    Raises:
        InputError: matrices are missing, or too many, or of sizes that do not fit together.
    """

    title: str
    matrices: Mapping[str, Float[Tensor, "_ _"]]
    tokens: tuple[Token, ...] | None = None
    memory_tokens: tuple[Token, ...] | None = None
    n_heads: int = 1
    score: ScaledDot = field(default_factory=ScaledDot)
    mask: Mask | None = None
    normalise: Softmax = field(default_factory=Softmax)
    source: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_names(self.matrices)
        check_sizes(self.matrices)
        check_heads(self.matrices, self.n_heads)
        check_tokens(self)
        check_mask(self)

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.matrices["x" if "x" in self.matrices else "Q"])

    @property
    def n_keys(self) -> int:
        """Number of keys."""
        return len(self.matrices[self.keys_from])

    @property
    def keys_from(self) -> str:
        """The name of the matrix that has a row for each key."""
        return next(name for name in ("memory", "x", "K") if name in self.matrices)

    @property
    def crosses(self) -> bool:
        """Whether the keys are other tokens than the queries, as in cross-attention."""
        return "memory" in self.matrices or self.memory_tokens is not None or self.n_queries != self.n_keys

    @property
    def queries(self) -> tuple[Token, ...]:
        """The tokens of the queries."""
        return self.tokens or numbered_tokens("x", self.n_queries)

    @property
    def keys(self) -> tuple[Token, ...]:
        """The tokens of the keys."""
        return (self.memory_tokens or numbered_tokens("m", self.n_keys)) if self.crosses else self.queries

    @property
    def query_texts(self) -> tuple[str, ...]:
        """The texts of the queries."""
        return tuple(token.text for token in self.queries)

    @property
    def key_texts(self) -> tuple[str, ...]:
        """The texts of the keys."""
        return tuple(token.text for token in self.keys)

    def changed(self, *, temperature: float | None = None, causal: bool = False) -> "Numbers":
        """Return the numbers with another temperature, or with a causal mask in addition to their own mask.

        Raises:
            InputError: the temperature is below 0, or the mask is causal and the keys are other tokens.
        """
        normalise = self.normalise
        if temperature is not None:
            normalise = replace(normalise, temperature=checked_temperature(temperature))
        mask = (Causal() if self.mask is None else self.mask & Causal()) if causal else self.mask
        return replace(self, normalise=normalise, mask=mask)


def numbered_tokens(letter: str, count: int) -> tuple[Token, ...]:
    """Return tokens with numbers as names: x1, x2, …"""
    return tuple(Token(text=f"{letter}{n}", piece=f"{letter}{n}") for n in range(1, count + 1))


def checked_temperature(temperature: float) -> float:
    """Return the temperature if softmax can use it.

    Raises:
        InputError: the temperature is below 0, infinite, NaN, or so small that scores overflow.
    """
    try:
        return Softmax(temperature=temperature).temperature
    except ValueError as error:
        raise InputError(str(error)) from error


# Checks


def check_names(given: Collection[str]) -> None:
    """Raise InputError unless the matrices are either x and its parameters, or Q, K and V."""
    direct = [name for name in DIRECT if name in given]
    projected = [name for name in (*PROJECTED, *OPTIONAL) if name in given]
    if direct and projected:
        both = (
            f"{joined_names(direct)} {is_or_are(direct)} given and so {is_or_are(projected)} {joined_names(projected)}"
        )
        raise InputError(f"{both}; {CHOOSE}, not both.")
    wanted = DIRECT if direct else PROJECTED
    if missing := [name for name in wanted if name not in given]:
        raise InputError(f"{joined_names(missing)} {is_or_are(missing)} missing; {CHOOSE}.")


def check_sizes(matrices: Mapping[str, Tensor]) -> None:
    """Raise InputError unless every product of matrices exists."""
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
        context = {"W_o": size["W_o"], "the context": (size["x" if "x" in size else "Q"][0], d_value)}
        check_size(context, "W_o", "the context", rows=d_value, why="one for each number of a context")


def check_size(
    size: Mapping[str, tuple[int, ...]],
    name: str,
    against: str,
    *,
    rows: int | None = None,
    columns: int | None = None,
    why: str,
) -> None:
    """Raise InputError, with the size that would fit, unless a matrix has these numbers of rows and columns."""
    have = size[name]
    would = (have[0] if rows is None else rows, have[1] if columns is None else columns)
    if have != would:
        wanted = counted(would[0], "row") if rows is not None and have[0] != rows else counted(would[1], "column")
        raise InputError(
            f"{name} is {size_text(have)}, but {against} is {size_text(size[against])}: "
            f"{name} must have {wanted}, {why} ({size_text(would)} would fit)."
        )


def check_heads(matrices: Mapping[str, Tensor], n_heads: int) -> None:
    """Raise InputError unless the columns of Q, K and V split evenly over the heads."""
    names = ("W_q", "W_v") if "x" in matrices else ("Q", "V")
    widths = {name[-1].upper(): matrices[name].shape[1] for name in names}
    possible = [count for count in range(1, max(widths.values()) + 1) if not any(w % count for w in widths.values())]
    if n_heads not in possible:
        columns = " and ".join(f"{name}'s {counted(width, 'column')}" for name, width in widths.items())
        raise InputError(
            f"n_heads = {n_heads} does not split {columns} into equal parts; "
            f"head counts that do: {', '.join(map(str, possible))}."
        )


def check_tokens(numbers: Numbers) -> None:
    """Raise InputError unless there is one name for each row."""
    if numbers.memory_tokens is not None and numbers.keys_from == "x":
        raise InputError("memory_tokens names the rows of memory, but there is no memory; give it, or leave them out.")
    x = "x" if "x" in numbers.matrices else "Q"
    for name, tokens, matrix, n_rows in (
        ("tokens", numbers.tokens, x, numbers.n_queries),
        ("memory_tokens", numbers.memory_tokens, numbers.keys_from, numbers.n_keys),
    ):
        if tokens is not None and len(tokens) != n_rows:
            raise InputError(
                f"{name} has {counted(len(tokens), 'name')}, but {matrix} has {counted(n_rows, 'row')}; "
                "give one name for each row."
            )


def check_mask(numbers: Numbers) -> None:
    """Raise InputError unless the mask is a queries x keys matrix, or causal over a single sequence."""
    wanted = (numbers.n_queries, numbers.n_keys)
    if isinstance(numbers.mask, Keep) and numbers.mask.tensor.shape != wanted:
        raise InputError(
            f"mask is {size_text(tuple(numbers.mask.tensor.shape))}, but there are {counted(wanted[0], 'query')} and "
            f"{counted(wanted[1], 'key')}: it must be {size_text(wanted)}, one row for each query."
        )
    if numbers.mask is not None and not isinstance(numbers.mask, Keep) and numbers.crosses:
        raise InputError(
            "a causal mask needs queries and keys to be the same tokens, in one order, and here the keys are other "
            "tokens; leave the mask out, or give one as a matrix of true and false."
        )


# Wording


def size_text(size: tuple[int, ...]) -> str:
    """Write the size of a matrix: 4 x 3."""
    return " x ".join(map(str, size))


def joined_names(names: list[str]) -> str:
    """Join names for a sentence.

    >>> joined_names(["Q", "K", "V"])
    'Q, K and V'
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def is_or_are(names: list[str]) -> str:
    """Return the verb for one or several names."""
    return "is" if len(names) == 1 else "are"
