"""Attention worked out by hand (a worked example) as a web page, which shows the steps of the computation.

The page computes every step itself, from the matrices Q, K and V. It also contains W_o and the matrices from which Q, K
and V were computed, so that a reader can follow each number back to the numbers that were given.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.by_hand.example_inputs import ExampleInputs
from regard.by_hand.work_out import projections
from regard.by_hand.worked_attention import WorkedAttention
from regard.errors import InputError
from regard.views.korean import korean
from regard.views.output_file import write_output
from regard.views.page import document
from regard.views.page.blocks import encode_bits
from regard.views.page.data import token_records
from regard.views.page.movement import array_record
from regard.views.page.vectors import step_of, vectors_record
from regard.views.page.weights import SMALL_BELOW, UNITS
from regard.visible_text import escape_controls

GIVEN = ("x", "memory", "W_q", "W_k", "W_v", "b_q", "b_k", "b_v", "W_o")
"""The names of the matrices from which Q, K and V are computed, and of the output projection W_o. In cross-attention, K
and V are computed from "memory"."""

BITS = 23
"""The number of bits, without the sign bit, to which the numbers of Q, K and V are rounded."""


def write_worked_page(worked: WorkedAttention, path: Path) -> Path:
    """Write a worked example, whose temperature must be above 0, as one web page and return the path."""
    return write_output(path, document(worked_data(worked), worked.title))


def worked_data(worked: WorkedAttention) -> dict[str, Any]:
    """Return the JSON data of the page, which `front/src/trace/data.ts` describes."""
    inputs = worked.inputs
    if inputs.temperature == 0:
        raise InputError(
            "the page shows the steps of a softmax, and attention at temperature 0 has none; give a temperature above "
            "0, or leave --html out."
        )
    blocks: dict[str, str] = {}
    layer = layer_record(inputs, blocks)
    kind = "cross" if inputs.is_cross_attention else "encoder"
    queries, keys = token_records(inputs.queries), token_records(inputs.keys)
    query_side = "target" if inputs.is_cross_attention else "source"
    return {
        "model": "",
        "text": escape_controls(inputs.title),
        "target_text": "",
        "source": keys,
        "target": queries if inputs.is_cross_attention else [],
        "kinds": {kind: {"queries": query_side, "keys": "source", "note": "", "layers": [layer]}},
        "units": UNITS,
        "small": {"below": SMALL_BELOW, "step": 1},
        "focus": {"kind": kind, "layer": 0, "head": 0, "query": worked.query or 0},
        "written": [],
        "images": [],
        "spectrogram": None,
        "worked": {
            "texts": {language: texts_of(worked, language) for language in ("en", "ko")},
            "matrices": {
                name: array_record(name, torch.from_numpy(inputs.matrices[name]), blocks)
                for name in GIVEN
                if name in inputs.matrices
            },
        },
        "blocks": blocks,
    }


def texts_of(worked: WorkedAttention, language: str) -> dict[str, Any]:
    """Return the title, the source and the notes of a worked example in a language, "en" or "ko"."""

    def translated(text: str) -> str:
        return escape_controls(korean(text) if language == "ko" else text)

    notes = [translated(note) for note in worked.notes]
    return {"title": translated(worked.title), "source": translated(worked.inputs.source), "notes": notes}


def layer_record(inputs: ExampleInputs, blocks: dict[str, str]) -> dict[str, Any]:
    """Return the JSON record of the attention layer; add the encoded Q, K, V and mask to `blocks`."""
    projected = projections(inputs)
    d_key = projected["Q"].shape[1] // inputs.n_heads
    mask, bias = inputs.keep, None
    if inputs.bias is not None:  # None replaces -∞, because JSON has no infinity
        heads = inputs.bias.reshape(len(inputs.bias), -1).tolist()
        numbers = [[None if number == -np.inf else number for number in head] for head in heads]
        bias = {"numbers": numbers, "full": True}  # a number for each query and key, not for each distance
    if mask is not None:
        blocks["mask"] = encode_bits(np.broadcast_to(mask, (1, inputs.n_queries, inputs.n_keys)))
    record: dict[str, Any] = {"layer": 0, "heads": inputs.n_heads}
    for name, matrix in (("query", projected["Q"]), ("key", projected["K"]), ("value", projected["V"])):
        vectors = torch.from_numpy(np.stack(np.split(matrix, inputs.n_heads, axis=1)))  # [heads tokens width]
        record[name] = vectors_record(name, vectors, step_of(vectors, BITS), blocks)
    return record | {
        "scale": d_key**-0.5 if inputs.scale is None else inputs.scale,
        "softcap": inputs.softcap,
        "temperature": inputs.temperature,
        "sinks": None if inputs.sinks is None else list(inputs.sinks),
        "bias": bias,
        "mask": None if mask is None else "mask",
        "masks": 0 if mask is None else 1,
    }
