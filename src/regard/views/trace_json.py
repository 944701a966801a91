"""A trace as data for other programs: JSON with the tokens and the weights."""

import json

from regard.errors import InputError
from regard.tracing.focus import Focus
from regard.tracing.head import Head
from regard.tracing.trace import Trace

MAX_WEIGHTS = 20_000_000
"""Weights in one JSON file at most; it takes some 10 bytes for each."""


def as_json(trace: Trace, focus: Focus, heads: list[Head]) -> str:
    """The tokens, the token looked from with its weights, and all weights of some heads.

    {"model", "text", "target_text", "kind", "queries": [token], "keys": [token],
     "focus": {"head": "L3H1", "query": 7, "token": "it", "weights": [number for each key]},
     "weights": {"L3H1": [[number for each key] for each query]}}

    Raises:
        InputError: more weights than a JSON file should hold.
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
            "weights": exact(focus.weights),
        },
        "weights": {head.name: [exact(row) for row in head.weights.tolist()] for head in heads},
    }
    return json.dumps(document, ensure_ascii=False) + "\n"


def exact(weights: list[float]) -> list[float]:
    """Weights with the nine digits that tell every float32 from the next."""
    return [float(f"{weight:.9g}") for weight in weights]
