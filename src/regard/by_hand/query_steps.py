"""The steps of one query of a worked example, key by key, with the exponentials of the softmax and their sum.

exp_k = exp(tempered_k - largest of the row)        the subtraction does not change the weights
weight_k = exp_k / sum                              sum: the exp_k of all keys, plus `sink_exponential` if not None
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from regard.by_hand.head_steps import largest_of_each_row
from regard.by_hand.worked_attention import WorkedAttention

BEFORE_EXPONENTIAL = ("products", "scores", "masked", "tempered")
"""The names of the matrices before the exponential.

"masked" is left out if there is no mask, and "tempered" (scores / temperature) if the temperature is 1.
"""


@dataclass(frozen=True, slots=True, eq=False)
class QuerySteps:
    """The steps from the products to the weights for one query in one head.

    Attributes:
        before: the query's row in each matrix from "products" to the last before the exponential, by name.
        formulas: the formulas of these matrices, by name.
        largest: the largest score, or the sink if larger. It is subtracted from each score before the exponential.
        sink_exponential: the exponential of the sink, a score that belongs to no key; None = the softmax has no sink.
        total: the sum of `exponentials` and `sink_exponential`.
    """

    before: dict[str, Float[np.ndarray, " keys"]]
    formulas: dict[str, str]
    largest: float
    exponentials: Float[np.ndarray, " keys"]
    sink_exponential: float | None
    total: float
    weights: Float[np.ndarray, " keys"]


def query_steps(worked: WorkedAttention) -> QuerySteps:
    """Return how the weights of the query `worked.query` are computed, key by key, in an example of one head.

    The temperature must be above 0.
    """
    assert worked.query is not None
    stages = {stage.name: stage for stage in worked.stages if stage.name in BEFORE_EXPONENTIAL}
    before = {name: stage.matrix[worked.query] for name, stage in stages.items()}
    inputs = worked.inputs
    exponents = list(before.values())[-1]
    sink = None if inputs.sinks is None else inputs.sinks[0] / inputs.temperature
    largest = float(largest_of_each_row(exponents[None], sink)[0, 0])
    exponentials = np.exp(exponents - largest)
    sink_exponential = None if sink is None else float(np.exp(sink - largest))
    return QuerySteps(
        before=before,
        formulas={name: stage.formula for name, stage in stages.items()},
        largest=largest,
        exponentials=exponentials,
        sink_exponential=sink_exponential,
        total=float(exponentials.sum()) + (sink_exponential or 0.0),
        weights=worked.weights[0, worked.query],
    )
