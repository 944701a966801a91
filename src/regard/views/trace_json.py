"""A trace as JSON for other programs: its tokens and weights."""

import json

from regard.errors import InputError
from regard.tracing.focus import Focus
from regard.tracing.head import Head
from regard.tracing.trace import Trace

MAX_WEIGHTS = 20_000_000
"""The largest number of weights in one JSON file; each takes about 10 bytes."""


def as_json(trace: Trace, focus: Focus, heads: list[Head]) -> str:
    """Return a trace as JSON text: its tokens, the weights of one query in one head, and all weights of some heads.

        {"model", "text", "target_text", "kind", "queries": [token], "keys": [token],
         "focus": {"head": "L3H1", "query": 7, "token": "it", "weights": [number for each key]},
         "weights": {"L3H1": [[number for each key] for each query]}}

    Args:
        focus: the query token and the head whose weights are under "focus".
        heads: the heads whose weights, of all queries, are under "weights".

    Raises:
        InputError: `heads` have more than MAX_WEIGHTS weights in all.
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
