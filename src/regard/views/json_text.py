"""A trace, or a comparison of two traces, as JSON for other programs."""

import json
import math

from regard.errors import InputError
from regard.tracing.comparison import Comparison
from regard.tracing.focus import Focus
from regard.tracing.head import Head
from regard.tracing.trace import Trace

MAX_WEIGHTS = 20_000_000
"""The largest number of weights in one JSON file; each takes about 10 bytes."""


def trace_json(trace: Trace, focus: Focus, heads: list[Head]) -> str:
    """Return a trace as JSON text, with the weights of the query in `focus` and all weights of `heads`.

    {"model": name, "text": text, "target_text": text, "kind": "encoder", "queries": [token], "keys": [token],
     "focus": {"head": "L3H1", "query": 7, "token": "it", "weights": [number for each key]},
     "weights": {"L3H1": [[number for each key] for each query]}}
    """
    n_weights = len(heads) * len(focus.head.queries) * len(focus.head.keys)
    if n_weights > MAX_WEIGHTS:
        raise InputError(
            f"{len(heads)} heads have {n_weights:,} weights, more than the {MAX_WEIGHTS:,} that one JSON file takes; "
            "choose one head with --head or the heads of one layer with --layer."
        )
    document = {
        "model": trace.model,
        "text": trace.text,
        "target_text": trace.target_text,
        "kind": focus.head.kind,
        "queries": [token.text for token in focus.head.queries],
        "keys": [token.text for token in focus.head.keys],
        "focus": {
            "head": focus.head.name,
            "query": focus.query,
            "token": focus.token.text,
            "weights": round_trip_digits(focus.weights),
        },
        "weights": {head.name: [round_trip_digits(row) for row in head.weights.tolist()] for head in heads},
    }
    return json.dumps(document, ensure_ascii=False) + "\n"


def round_trip_digits(weights: list[float]) -> list[float]:
    """Return weights rounded to nine significant digits, which suffice to tell every two float32 numbers apart."""
    return [float(f"{weight:.9g}") for weight in weights]


def comparison_json(comparison: Comparison) -> str:
    """Return a comparison of two traces as JSON text of this form:

        {"models": [name, name], "at_most": 0.001, "first": {"head": "L3H1", "token": "it"} or null, "output": number,
         "layers": [{"kind": "encoder", "layer": 3, "heads": [number for each head], "tokens": [token for each head],
                     "weights": [number for each head]}]}

    A query has two weights on each key, one in each trace. The query's total variation (0 to 1) is half the sum over
    the keys of |difference of the two weights|.

    - "first": of the first layer with a total variation above "at_most", the head and the query token with the largest
      total variation; null = there is no such layer.
    - "output": the largest difference of the outputs; null = unknown.
    - "heads": for each head, the largest total variation of all queries; null = the layer has no such head.
    - "tokens": for each head, the token of the query with this total variation.
    - "weights": for each head, the largest |difference of two weights|.
    """
    layers = []
    for row, (kind, layer) in enumerate(comparison.layers):
        variations = [None if math.isnan(number) else number for number in comparison.heads[row].tolist()]
        differences = [None if math.isnan(number) else number for number in comparison.weights[row].tolist()]
        tokens: list[str | None] = [None] * len(variations)
        for head, variation in enumerate(variations):
            if variation is not None:
                _head_name, tokens[head] = comparison.head_and_query(row, head)
        layers.append({"kind": kind, "layer": layer, "heads": variations, "tokens": tokens, "weights": differences})
    first = None if comparison.first is None else dict(zip(("head", "token"), comparison.first, strict=True))
    document = {
        "models": comparison.models,
        "at_most": comparison.at_most,
        "first": first,
        "output": comparison.output,
        "layers": layers,
    }
    return json.dumps(document, ensure_ascii=False) + "\n"
