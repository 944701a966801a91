"""A comparison of two traces as JSON for other programs."""

import json
import math

from regard.tracing.comparison import Comparison


def as_json(comparison: Comparison) -> str:
    """Return a comparison of two traces of one text as JSON text of this form:

        {"models": [name, name], "at_most": 0.001, "first": {"head": "L3H1", "token": "it"} or null, "output": number,
         "layers": [{"kind": "encoder", "layer": 3, "heads": [number for each head], "tokens": [token for each head],
                     "weights": [number for each head]}]}

    "first" is the head and the query token where the traces first differ by more than "at_most"; null if there
    is no such head.
    "output" is the largest absolute difference between the outputs of the models; null if they cannot be compared.

    Each list of a layer has an entry for each head. If the layer has fewer heads than another layer, the entries of the
    missing heads are null. "heads" has the largest fraction of a query's attention that goes to other keys in the
    second trace than in the first, "tokens" has the token of the query with this fraction, and "weights" has the
    largest absolute difference of a weight.
    """
    layers = []
    for row, (kind, layer) in enumerate(comparison.layers):
        shares, weights = comparison.heads[row].tolist(), comparison.weights[row].tolist()
        has_head = [not math.isnan(share) for share in shares]
        layers.append(
            {
                "kind": kind,
                "layer": layer,
                "heads": [share if exists else None for share, exists in zip(shares, has_head, strict=True)],
                "tokens": [
                    comparison.head_and_query(row, h)[1] if exists else None for h, exists in enumerate(has_head)
                ],
                "weights": [weight if exists else None for weight, exists in zip(weights, has_head, strict=True)],
            }
        )
    first = None if comparison.first is None else dict(zip(("head", "token"), comparison.first, strict=True))
    document = {
        "models": list(comparison.models),
        "at_most": comparison.at_most,
        "first": first,
        "output": comparison.output,
        "layers": layers,
    }
    return json.dumps(document, ensure_ascii=False) + "\n"
