"""A worked example of attention: every matrix of every step, with its name, its formula and its shape.

`work_out.py` computes a worked example; `regard.views.terminal.matrices.show` prints one.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from jaxtyping import Float

from regard.by_hand.example_inputs import ExampleInputs
from regard.by_hand.head_steps import Matrix
from regard.errors import InputError, counted, nearest


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Stage:
    """One matrix of a worked example, with its name and the formula that computes it.

    Attributes:
        section: the heading above the matrix.
        name: the matrix's name in the formulas of later matrices; with several heads, it ends in the head's number.
        formula: how the matrix is computed from earlier matrices; empty for a given matrix.
        rows, columns: the names of the rows and of the columns; empty = no names.
        axis_of_keys: whether the rows or the columns are keys of the attention; None = neither.
        marked: the row of the query whose steps are shown; None = no row.
        summed: whether a row with the sums of the columns is shown below the matrix.
        may_be_masked: whether numbers may be -∞, because of a mask or a bias.
        head: the head's number, counted from 1; None if there is only one head, or if the matrix belongs to all heads.
    """

    section: str
    name: str
    matrix: Matrix
    formula: str = ""
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    axis_of_keys: Literal["rows", "columns"] | None = None
    marked: int | None = None
    summed: bool = False
    may_be_masked: bool = False
    head: int | None = None

    @property
    def is_weights(self) -> bool:
        return self.name.partition("_")[0] == "weights"  # "weights", or "weights_2" of the second head

    @property
    def shape(self) -> str:
        """The shape of the matrix as text, such as: 3 tokens × 4."""
        n_rows, n_columns = self.matrix.shape
        rows = counted(n_rows, "token") if self.rows else str(n_rows)
        return f"{rows} × {counted(n_columns, 'token') if self.columns else n_columns}"

    def __repr__(self) -> str:
        formula = f" = {self.formula}" if self.formula else ""
        return f"Stage({self.name}{formula}, {self.shape})"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class WorkedAttention:
    """A worked example of attention; worked["weights"] is the `Stage` of this name.

    `stages` are in the order of the computation; `query` is the position of the query shown in detail, None = no query.
    """

    inputs: ExampleInputs
    stages: tuple[Stage, ...]
    query: int | None = None

    @property
    def title(self) -> str:
        return self.inputs.title

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes to print with the matrices, one line each."""
        # for each head, the matrix from which the weights are computed: heads queries keys
        softmax_inputs = [stage.matrix for stage, following in pairwise(self.stages) if following.is_weights]
        sees_no_key = np.isneginf(softmax_inputs).all(axis=(0, 2))
        names = [self.inputs.query_texts[query] for query in np.flatnonzero(sees_no_key)]
        no_key_notes = (f"{name} may attend to no key: its weights and its context are 0." for name in names)
        return (*self.inputs.notes, *self.sink_notes, *no_key_notes)

    @property
    def sink_notes(self) -> list[str]:
        if self.inputs.sinks is None:
            return []
        sink, temperature = self.inputs.sinks[0], self.inputs.temperature  # inputs with a sink are one head
        if temperature == 0:
            return [f"A sink of {sink:.4f} takes part in each row, and gets all weight where it is the largest."]
        tempered = "" if temperature == 1 else f" / {temperature:g} = {sink / temperature:.4f}"
        return [f"A sink of {sink:.4f}{tempered} takes part in each softmax and has no value."]

    @property
    def weights(self) -> Float[np.ndarray, "heads queries keys"]:
        return np.stack([stage.matrix for stage in self.stages if stage.is_weights])

    @property
    def strongest(self) -> tuple[int, ...]:
        """All keys, sorted by the weight of the query `self.query` on them (summed over the heads), largest first.

        Empty if `self.query` is None.
        """
        if self.query is None:
            return ()
        return tuple(largest_first(self.weights[:, self.query].sum(axis=0)))

    def __getitem__(self, name: str) -> Stage:
        stages = {stage.name: stage for stage in self.stages}
        if name not in stages:
            raise InputError(f"no stage {name!r}; nearest: {', '.join(nearest(name, list(stages)))}.")
        return stages[name]

    def __repr__(self) -> str:
        sizes = f"queries={self.inputs.n_queries}, keys={self.inputs.n_keys}, heads={self.inputs.n_heads}"
        return f"WorkedAttention({self.title!r}, {sizes}, stages={len(self.stages)})"


def largest_first(weights: Float[np.ndarray, " keys"]) -> list[int]:
    """Return the indices that sort the weights, largest first; of equal weights, the lowest index first.

    >>> largest_first(np.array([0.25, 0.5, 0.25]))
    [1, 0, 2]
    """
    order: list[int] = np.argsort(-weights, kind="stable").tolist()
    return order
