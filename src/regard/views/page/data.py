"""The data of a page: one trace as JSON, in which arrays of numbers are base64 text.

`Trace` in front/src/trace/data.ts describes the data.
"""

import base64
from collections.abc import Sequence
from string import whitespace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.masks.mask import keep_of_tile
from regard.attention.pattern import Pattern
from regard.errors import InputError
from regard.tracing.decoder_note import decoder_note
from regard.tracing.focus import Focus
from regard.tracing.generation import N_NEXT
from regard.tracing.patterns_by_layer import SIDES
from regard.tracing.tokens.places import Patch
from regard.tracing.tokens.readable_tokens import Token
from regard.tracing.tokens.words import is_word
from regard.tracing.trace import Trace
from regard.views.page.blocks import encode_bits, encode_shares
from regard.views.page.movement import movement_records
from regard.views.page.outputs import N_SHOWN, output_record
from regard.views.page.vectors import VALUE_BITS, step_of, vectors_of, vectors_record, with_infinity
from regard.views.page.weights import SMALL_BELOW, UNITS, encode_with_finest_step
from regard.visible_text import escape_controls

MAX_WEIGHTS = 300_000_000
"""The largest number of attention weights that a page stores or computes; each weight makes writing the page slower."""

MOST_TOKENS = 4_096
"""The largest number of tokens of a text that `regard explore` shows with all weights. Of a longer text, it shows a
map: an image into which the reader zooms."""

MAX_VALUES = 400_000
"""A page in a file contains value vectors only if they have at most this many numbers (about a megabyte)."""

MAX_COLUMNS = 200_000
"""A page contains columns of output projections only if they have at most this many numbers (about a megabyte)."""

Blocks = dict[str, str]
"""The encoded arrays of a page: `blocks[name]` is the array with this name, as text (see `blocks.py`)."""


@torch.no_grad()
def page_data(
    trace: Trace, focus: Focus, alignment: dict[str, Any] | None = None, max_values: int = MAX_VALUES
) -> dict[str, Any]:
    """Return a trace with all its weights as the JSON data of a page.

    Args:
        focus: the query token and the head that the page shows first.
        alignment: the word alignments of a translation; None = the trace is not of a translation.
        max_values: value vectors are stored only if they have at most this many numbers.

    Raises:
        InputError: the trace has more weights than a page may show, or a weight is NaN.
    """
    blocks: Blocks = {}
    layers, rounding_step = encode_layers(trace, blocks, max_values)
    return trace_record(trace, layers, blocks) | {
        "small": {"below": SMALL_BELOW, "step": rounding_step},  # stored weights below `below` are multiples of `step`
        "focus": {"kind": focus.head.kind, "layer": focus.head.layer, "head": focus.head.head, "query": focus.query},
        "images": [
            medium_record(f"image {number}", image, ("height", "width"), blocks)
            for number, image in enumerate(trace.images)
        ],
        "spectrogram": medium_record("spectrogram", trace.spectrogram, ("bands", "frames"), blocks),
        "alignment": with_visible_controls(alignment),
        "movement": movement_records(trace, blocks),
    }


def continuation_record(text: str, continuation: Sequence[int], logits: Float[Tensor, " vocabulary"]) -> dict[str, Any]:
    """Return the most probable next tokens of a text, and all logits, so that the reader of a page can choose a token.

    `Going` in front/src/trace/data.ts describes this JSON record.

    Args:
        text: the text that the reader typed.
        continuation: the ids of the tokens after the text, which the model generated or the reader chose.
        logits: the logits of the token that follows the continuation.
    """
    logits = logits.detach().float().cpu()
    return {
        "text": text,
        "continuation": list(continuation),
        "ids": logits.topk(min(N_NEXT, len(logits))).indices.tolist(),
        "logits": base64.b64encode(logits.numpy().astype("<f4").tobytes()).decode(),
    }


def map_data(trace: Trace, map_record: dict[str, Any]) -> dict[str, Any]:
    """Return the trace of a long text as JSON data without weights: the page requests weights from the server.

    The page first shows the last query. `map_record`, from `Map.record`, says how the page requests weights; see
    `WeightMap` in front/src/trace/data.ts.
    """
    layers = {
        kind: [
            {"layer": number, "heads": attended.pattern.n_heads, "mask": None, "masks": 0}  # no mask is stored
            for number, attended in trace.attended[kind].items()
        ]
        for kind in trace.kinds
    }
    head = trace.heads(trace.kinds[-1])[0]
    return trace_record(trace, layers, {}) | {
        "small": {"below": SMALL_BELOW, "step": 1},  # 1 = no weight is rounded to multiples
        "focus": {"kind": head.kind, "layer": head.layer, "head": head.head, "query": len(head.queries) - 1},
        "images": [],
        "spectrogram": None,
        "map": map_record,
    }


def fits_page(trace: Trace) -> bool:
    """Return whether a trace is short enough for a page that shows all its weights."""
    return n_weights(trace) <= MAX_WEIGHTS and max(len(trace.source), len(trace.target)) <= MOST_TOKENS


def n_weights(trace: Trace) -> int:
    return sum(step.pattern.shape.numel() for layers in trace.attended.values() for step in layers.values())


def trace_record(trace: Trace, layers: dict[str, list[dict[str, Any]]], blocks: Blocks) -> dict[str, Any]:
    """Return the texts, the tokens and the layers of a trace; `layers` and `blocks` come from `encode_layers`."""
    return {
        "model": escape_controls(trace.model),
        "text": escape_controls(trace.text, keep=whitespace),
        "target_text": escape_controls(trace.target_text, keep=whitespace),
        "source": token_records(trace.source),
        "target": token_records(trace.target),
        "kinds": {
            kind: {
                "queries": SIDES[kind].queries,
                "keys": SIDES[kind].keys,
                "note": decoder_note(trace, kind),
                "layers": layers[kind],
            }
            for kind in trace.kinds
        },
        "units": UNITS,
        "written": [  # the tokens that the model generated
            {
                "position": token.position,
                "probability": token.probability,
                "alternatives": [[escape_controls(text), probability] for text, probability in token.alternatives],
            }
            for token in trace.written
        ],
        "blocks": blocks,
    }


def encode_layers(trace: Trace, blocks: Blocks, max_values: int) -> tuple[dict[str, list[dict[str, Any]]], int]:
    """Encode all layers of a trace, add the arrays to `blocks`, and return the records of the layers.

    Args:
        max_values: value vectors are encoded only if they have at most this many numbers in all layers together.

    Returns:
        The records of the layers, a list for each kind of attention; and the number `step`: stored weights below 0.01
        are rounded to multiples of step / 10,000 (see `weights.py`). Some entries of a record:
        - "query" and "key": vectors from which the page computes the weights; and "value", if `max_values` allows it.
        - "weights": the name of the weights in `blocks`. A record has "weights" instead of the entries above if the
          page cannot compute the weights.
        - "mask": the name of the layer's masks in `blocks`; None if no weight is masked.
        - "masks": the number of these masks: one for each head, or 1 if all heads have the same mask.
        - "output": the record of the layer's output projection (see `outputs.py`), only if values are encoded, the
          trace has hidden vectors, and all output projections together have at most MAX_COLUMNS numbers.
    """
    if n_weights(trace) > MAX_WEIGHTS:
        raise InputError(
            f"the trace has {n_weights(trace):,} weights, more than the {MAX_WEIGHTS:,} that one page takes; "
            "trace fewer layers (layers=…) or a shorter text."
        )
    patterns = {(kind, n): step.pattern for kind in trace.kinds for n, step in trace.attended[kind].items()}
    n_values = sum(pattern.value.numel() for pattern in patterns.values())
    has_values = n_values <= max_values
    states = [state for by_layer in (trace.states or {}).values() for state in by_layer.values()]
    shown_columns = [state.projection.weight[:, :, :N_SHOWN] for state in states]  # heads × d_value × N_SHOWN
    has_outputs = has_values and sum(columns.numel() for columns in shown_columns) <= MAX_COLUMNS
    layers: dict[str, list[dict[str, Any]]] = {kind: [] for kind in trace.kinds}
    not_computable: dict[str, Pattern] = {}
    for (kind, number), pattern in patterns.items():
        name = f"{kind} layer {number}"
        layer = {"layer": number, "heads": pattern.n_heads} | embed_mask(pattern, blocks)
        layers[kind].append(layer)  # the entries below are added to this dictionary
        record = vectors_of(name, pattern, blocks)
        if record is None:
            not_computable[name] = pattern
            layer["weights"] = name
            continue
        layer.update(record)
        if has_values:
            values = pattern.value[:1].float()  # a page shows the first batch item
            layer["value"] = vectors_record(f"{name} value", values, step_of(values, VALUE_BITS), blocks)
        if has_outputs and trace.states is not None:
            layer["output"] = output_record(name, trace.attended[kind][number], trace.states[kind][number], blocks)
    rounding_step, weight_blocks = encode_with_finest_step(not_computable)
    blocks |= weight_blocks
    return layers, rounding_step


def embed_mask(pattern: Pattern, blocks: Blocks) -> dict[str, Any]:
    """Add the masks of a layer to `blocks`; return their name ("mask") and their number ("masks").

    A mask has a bit for each query and key: 1 = the query may attend to the key. A key with the bias -∞, or with the
    lowest number of the bias's data type, is masked, too. If `blocks` already contains equal masks, their name is
    returned. If every query may attend to every key, no mask is stored.
    """
    keep = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=pattern.device)
    if pattern.mask is not None:
        keep = keep & keep_of_tile(pattern.mask, pattern.grid.whole(), pattern.device)
    if pattern.call.formula is not None and isinstance(pattern.call.formula.bias, Tensor):
        keep = keep & (with_infinity(pattern.call.formula.bias) != -torch.inf)
    masks = keep[0].cpu().numpy()
    if masks.all():
        return {"mask": None, "masks": 0}
    if (masks == masks[:1]).all():
        masks = masks[:1]
    masks = np.broadcast_to(masks, (masks.shape[0], *pattern.shape[2:]))
    text = encode_bits(masks)
    equal_blocks = (name for name, block in blocks.items() if block == text)
    name = next(equal_blocks, f"mask {len(blocks)}")
    blocks[name] = text
    return {"mask": name, "masks": masks.shape[0]}


def token_records(tokens: tuple[Token, ...]) -> list[dict[str, Any]]:
    """Return a JSON record for each token: text, piece if this is not the text, place, and the flags that are true."""
    word_flags = is_word(tokens).tolist()
    return [token_record(token, word_flag) for token, word_flag in zip(tokens, word_flags, strict=True)]


def token_record(token: Token, word_flag: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {"text": escape_controls(token.text)}
    if token.piece != token.text:
        fields["piece"] = escape_controls(token.piece)
    flags = {"special": token.special, "joined": token.joined, "word": word_flag}
    place = token.place
    if isinstance(place, Patch):
        fields["place"] = {name: getattr(place, name) for name in ("image", "n_images", "thumbnail")}
        fields["place"] |= dict(zip(("top", "left", "height", "width"), place.cell, strict=True))
        if place.end_seconds is not None:
            fields["place"]["seconds"] = [place.start_seconds, place.end_seconds]
    elif place is not None:
        fields["place"] = {"start": place.start_seconds, "end": place.end_seconds}
    return fields | {name: True for name, is_set in flags.items() if is_set}


def with_visible_controls(content: Any) -> Any:
    """Return a JSON value in which visible symbols replace the control characters of all strings."""
    if isinstance(content, str):
        return escape_controls(content)
    if isinstance(content, dict):
        return {name: with_visible_controls(value) for name, value in content.items()}
    if isinstance(content, list):
        return [with_visible_controls(value) for value in content]
    return content


def medium_record(name: str, medium: Tensor | None, axes: tuple[str, str], blocks: Blocks) -> dict[str, Any] | None:
    """Encode an image or a spectrogram, add it to `blocks`, and return its JSON record; None if `medium` is None.

    Args:
        name: the name of the array in `blocks`; the numbers of "spectrogram" are scaled to the range from 0 to 1.
        axes: the names that height and width have in the record.
    """
    if medium is None:
        return None
    numbers = medium.detach().cpu().float().numpy()
    if name == "spectrogram" and numbers.size:
        numbers = (numbers - numbers.min()) / max(float(np.ptp(numbers)), 1e-12)
    blocks[name] = encode_shares(numbers)
    return {"block": name} | dict(zip(axes, numbers.shape[-2:], strict=True))
