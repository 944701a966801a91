"""A worked example of attention: every matrix of every step, with its name, its formula and its shape.

`work_out.py` computes a worked example, `regard.views.terminal.matrices.show` prints it.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from jaxtyping import Float

from regard.by_hand.head_steps import Matrix
from regard.by_hand.numbers import Numbers
from regard.errors import InputError, counted, nearest


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Stage:
    """One matrix of the computation and the formula that gives it.

    Attributes:
        section: the title of the part of the computation, such as "Attention".
        name: the matrix's name in the formulas of later stages; it ends in the head's number if there are several.
        formula: the matrix in terms of earlier stages; empty for a given matrix.
        rows, columns: the names of the rows and of the columns; empty if they have none.
        keys: the axis of the keys.
        marked: the row of the token of interest.
        summed: whether the sum of the rows is shown below them.
        head: the head's number, counted from 1; None for one head alone and for all heads together.
    """

    section: str
    name: str
    matrix: Matrix
    formula: str = ""
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    keys: Literal["rows", "columns"] | None = None
    marked: int | None = None
    summed: bool = False
    head: int | None = None

    @property
    def shape(self) -> str:
        """The matrix's shape in words: 3 tokens × 4."""
        n_rows, n_columns = self.matrix.shape
        rows = counted(n_rows, "token") if self.rows else str(n_rows)
        return f"{rows} × {counted(n_columns, 'token') if self.columns else n_columns}"

    def __repr__(self) -> str:
        formula = f" = {self.formula}" if self.formula else ""
        return f"Stage({self.name}{formula}, {self.shape})"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class WorkedAttention:
    """Attention computed step by step; worked["weights"] is one stage.

    Attributes:
        numbers: the numbers from which it was computed.
        stages: in the order of the computation.
        query: the position of the token of interest; None without such a token.
    """

    numbers: Numbers
    stages: tuple[Stage, ...]
    query: int | None = None

    @property
    def title(self) -> str:
        """The title of the numbers."""
        return self.numbers.title

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks to print with the stages, a line each."""
        before = [stage for stage, then in pairwise(self.stages) if then.name.split("_")[0] == "weights"]
        barred = np.isneginf([stage.matrix for stage in before])
        names = [self.numbers.query_texts[query] for query in np.flatnonzero(barred.all(axis=(0, 2)))]
        seen = (f"{name} may look at no key: its weights and its context are 0." for name in names)
        return (*self.numbers.notes, *self.sink, *seen)

    @property
    def sink(self) -> list[str]:
        """A line about the sink of the softmax, if it has one."""
        sinks, temperature = self.numbers.sinks, self.numbers.temperature
        if sinks is None:
            return []
        if temperature == 0:
            return [f"A sink of {sinks[0]:.4f} takes part: it has all weight where it is the largest."]
        tempered = "" if temperature == 1 else f" / {temperature:g} = {sinks[0] / temperature:.4f}"
        return [f"A sink of {sinks[0]:.4f}{tempered} takes part in each softmax and gives no value."]

    @property
    def weights(self) -> Float[np.ndarray, "heads queries keys"]:
        """The weights of every head."""
        return np.stack([stage.matrix for stage in self.stages if stage.name.split("_")[0] == "weights"])

    @property
    def strongest(self) -> tuple[int, ...]:
        """The keys of the token of interest by the sum of their weights over the heads, largest first; else empty."""
        if self.query is None:
            return ()
        return tuple(largest_first(self.weights[:, self.query].sum(axis=0)))

    def __getitem__(self, name: str) -> Stage:
        stages = {stage.name: stage for stage in self.stages}
        if name not in stages:
            raise InputError(f"no stage {name!r}; nearest: {', '.join(nearest(name, list(stages)))}.")
        return stages[name]

    def __repr__(self) -> str:
        sizes = f"queries={self.numbers.n_queries}, keys={self.numbers.n_keys}, heads={self.numbers.n_heads}"
        return f"WorkedAttention({self.title!r}, {sizes}, stages={len(self.stages)})"


def largest_first(weights: Float[np.ndarray, " keys"]) -> list[int]:
    """Return the keys by their weights, largest first; of equal weights, the lowest key first.

    >>> largest_first(np.array([0.25, 0.5, 0.25]))
    [1, 0, 2]
    """
    order: list[int] = np.argsort(-weights, kind="stable").tolist()
    return order
