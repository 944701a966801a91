"""The data of a page: one trace as JSON, in which arrays are base64 text.

The interface `Trace` in `front/src/data.ts` describes the same data for the script of the page.
"""

import base64
from collections.abc import Sequence
from string import whitespace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.pattern import Pattern
from regard.errors import InputError
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
from regard.views.page.vectors import values_of, vectors_of
from regard.views.page.weights import SMALL_BELOW, UNITS, encode_finest
from regard.views.shared_text import decoder_note
from regard.visible_text import escape_controls

MAX_WEIGHTS = 300_000_000
"""The most weights that a page may show, stored or computed by the page; the time to write a page grows with them."""

MOST_TOKENS = 4_096
"""The most tokens of a text that `regard explore` shows with all its weights; a longer text is shown as a map: an image
of its weights into which the reader zooms."""

MAX_VALUES = 400_000
"""The most numbers in the value vectors of a page in a file (about a megabyte); of more, none is stored."""

MAX_COLUMNS = 200_000
"""The most numbers in the stored columns of all output projections (about a megabyte); of more, none is stored."""

Blocks = dict[str, str]
"""The encoded arrays of a page by name: `blocks[name]` is the text of one array (see `blocks.py`)."""


@torch.no_grad()
def page_data(
    trace: Trace, focus: Focus, alignment: dict[str, Any] | None = None, max_values: int | None = None
) -> dict[str, Any]:
    """Return a trace with all its weights as the JSON data of a page.

    Args:
        focus: the query token and the head that the page shows first.
        alignment: the alignments of a translation's candidates, as `Translation.page_record` returns them; None = the
            trace is not of a translation.
        max_values: the most numbers in the value vectors of the page; above it, the page has no values. None = the
            limit of a file, MAX_VALUES.

    Raises:
        InputError: the trace has more weights than a page takes, or a NaN among them.
    """
    blocks: Blocks = {}
    layers, small_step = encode_layers(trace, blocks, max_values)
    return trace_record(trace, layers, blocks) | {
        "small": {"below": SMALL_BELOW, "step": small_step},
        "focus": {"kind": focus.head.kind, "layer": focus.head.layer, "head": focus.head.head, "query": focus.query},
        "images": [
            medium_record(f"image {number}", image, ("height", "width"), blocks)
            for number, image in enumerate(trace.images)
        ],
        "spectrogram": medium_record("spectrogram", trace.spectrogram, ("bands", "frames"), blocks),
        "alignment": with_visible_controls(alignment),
        "movement": movement_records(trace, blocks),
    }


def going_record(text: str, continuation: Sequence[int], logits: Float[Tensor, " vocabulary"]) -> dict[str, Any]:
    """Return what a page needs to let a causal language model go on; `Going` in front/src/data.ts describes it.

    Args:
        text: the text that was typed.
        continuation: the ids of the tokens after the text.
        logits: the logits of the next token.
    """
    logits = logits.detach().float().cpu()
    return {
        "text": text,
        "continuation": list(continuation),
        "ids": logits.topk(min(N_NEXT, len(logits))).indices.tolist(),
        "logits": base64.b64encode(logits.numpy().astype("<f4").tobytes()).decode(),
    }


def map_data(trace: Trace, map_record: dict[str, Any]) -> dict[str, Any]:
    """Return a long trace as the JSON data of a page, without weights: the page requests them from a server.

    The page first shows the last query in the first head of the last kind of attention.

    Args:
        map_record: how the page asks for weights; `WeightMap` in front/src/data.ts describes it.
    """
    layers = {
        kind: [
            {"layer": number, "heads": step.pattern.n_heads, "mask": None, "masks": 0}
            for number, step in trace.attended[kind].items()
        ]
        for kind in trace.kinds
    }
    head = trace.heads(trace.kinds[-1])[0]
    return trace_record(trace, layers, {}) | {
        "small": {"below": SMALL_BELOW, "step": 1},
        "focus": {"kind": head.kind, "layer": head.layer, "head": head.head, "query": len(head.queries) - 1},
        "images": [],
        "spectrogram": None,
        "map": map_record,
    }


def fits_page(trace: Trace) -> bool:
    """Return whether a trace is short enough to be shown with all its weights, by `page_data`."""
    return n_weights(trace) <= MAX_WEIGHTS and max(len(trace.source), len(trace.target)) <= MOST_TOKENS


def n_weights(trace: Trace) -> int:
    """Return the number of attention weights in all layers and heads of a trace."""
    return sum(step.pattern.shape.numel() for layers in trace.attended.values() for step in layers.values())


def trace_record(trace: Trace, layers: dict[str, list[dict[str, Any]]], blocks: Blocks) -> dict[str, Any]:
    """Return the texts, the tokens and the layers of a trace as JSON data.

    Args:
        layers: for each kind of attention, a record for each layer.
        blocks: the encoded arrays, by the names that are in these records.
    """
    return {
        "model": escape_controls(trace.model),
        "text": escape_controls(trace.text, keep=whitespace),
        "target_text": escape_controls(trace.target_text, keep=whitespace),
        "source": token_records(trace.source),
        "target": token_records(trace.target),
        "kinds": {
            kind: {
                "queries": SIDES[kind][0],
                "keys": SIDES[kind][1],
                "note": decoder_note(trace, kind),
                "layers": layers[kind],
            }
            for kind in trace.kinds
        },
        "units": UNITS,
        "written": [
            {
                "position": token.position,
                "probability": token.probability,
                "alternatives": [[escape_controls(text), share] for text, share in token.alternatives],
            }
            for token in trace.written
        ],
        "blocks": blocks,
    }


def encode_layers(
    trace: Trace, blocks: Blocks, max_values: int | None = None
) -> tuple[dict[str, list[dict[str, Any]]], int]:
    """Encode all layers of a trace for a page, and add the encoded arrays to `blocks`.

    Args:
        max_values: the most numbers in all value vectors; above it, none are encoded. None = MAX_VALUES.

    Returns:
        For each kind of attention ("encoder", "decoder", "cross") a list with one record for each layer, and the
        rounding step of stored weights below 0.01, in units of 1/10,000. The entries of a record name arrays in
        `blocks`:
        - "query" and "key", and "value" if the text is short; or "weights", if the page cannot compute the weights.
        - "mask": the array of the layer's mask, or None if no weight is masked. "masks" is the number of masks in that
          array: one for each head, or one for all heads.
        - "output": the record of the layer's output projection (see `outputs.py`), if there are values, and the trace
          has hidden vectors.
    """
    patterns = {(kind, n): step.pattern for kind in trace.kinds for n, step in trace.attended[kind].items()}
    check_size(trace)
    most_values = MAX_VALUES if max_values is None else max_values
    with_values = sum(pattern.value.numel() for pattern in patterns.values()) <= most_values
    with_outputs = with_values and n_columns(trace) <= MAX_COLUMNS
    layers: dict[str, list[dict[str, Any]]] = {kind: [] for kind in trace.kinds}
    stored: dict[str, Pattern] = {}
    for (kind, number), pattern in patterns.items():
        name = f"{kind} layer {number}"
        layer = {"layer": number, "heads": pattern.n_heads} | embed_mask(pattern, blocks)
        layers[kind].append(layer)
        computed = vectors_of(pattern)
        if computed is None:
            stored[name] = pattern
            layer["weights"] = name
            continue
        record, layer_blocks = computed
        if with_values:
            record["value"], layer_blocks["value"] = values_of(pattern)
        if with_outputs and trace.states is not None:
            layer["output"] = output_record(name, trace.attended[kind][number], trace.states[kind][number], blocks)
        for part, text in layer_blocks.items():
            blocks[f"{name} {part}"] = text
            record[part]["block"] = f"{name} {part}"
        layer |= record
    small_step, weights = encode_finest(stored)
    blocks |= weights
    return layers, small_step


def n_columns(trace: Trace) -> int:
    """Return how many numbers of output projections a page of a trace stores, in all layers together."""
    states = [state for layers in (trace.states or {}).values() for state in layers.values()]
    return sum(state.projection.weight[:, :, :N_SHOWN].numel() for state in states)


def check_size(trace: Trace) -> None:
    """Raise InputError if a trace has more weights than a page shows."""
    if n_weights(trace) > MAX_WEIGHTS:
        raise InputError(
            f"the trace has {n_weights(trace):,} weights, more than the {MAX_WEIGHTS:,} that one page takes; "
            "trace fewer layers (layers=…) or a shorter text."
        )


def embed_mask(pattern: Pattern, blocks: Blocks) -> dict[str, Any]:
    """Encode the mask of a layer into `blocks`, one bit for each query and key (1 = the query may attend to the key).

    Nothing is added if `blocks` already has an equal mask, or if the mask hides no key from any query.

    Returns:
        The entries "mask" and "masks" of the layer's record (see `encode_layers`).
    """
    if pattern.mask is None:
        return {"mask": None, "masks": 0}
    keep = pattern.mask.keep(pattern.grid.whole(), pattern.device)[0].cpu().numpy()
    keep = np.broadcast_to(keep, (keep.shape[0], *pattern.shape[2:]))
    if keep.all():
        return {"mask": None, "masks": 0}
    text = encode_bits(keep)
    name = next((name for name, block in blocks.items() if block == text), f"mask {len(blocks)}")
    blocks[name] = text
    return {"mask": name, "masks": keep.shape[0]}


def token_records(tokens: tuple[Token, ...]) -> list[dict[str, Any]]:
    """Return a JSON record for each token. Fields that are False or equal to the token's text are omitted."""
    words = is_word(tokens).tolist()
    return [token_record(token, word) for token, word in zip(tokens, words, strict=True)]


def token_record(token: Token, word: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {"text": escape_controls(token.text)}
    if token.piece != token.text:
        fields["piece"] = escape_controls(token.piece)
    flags = {"special": token.special, "joined": token.joined, "word": word}
    place = token.place
    if isinstance(place, Patch):
        fields["place"] = {
            name: getattr(place, name) for name in ("image", "n_images", "thumbnail", "top", "left", "height", "width")
        }
        if place.end_seconds is not None:
            fields["place"]["seconds"] = [place.start_seconds, place.end_seconds]
    elif place is not None:
        fields["place"] = {"start": place.start_seconds, "end": place.end_seconds}
    return fields | {name: True for name, value in flags.items() if value}


def with_visible_controls(content: Any) -> Any:
    """Return a JSON value in which all strings have their control characters escaped, so that a reader sees them."""
    if isinstance(content, str):
        return escape_controls(content)
    if isinstance(content, dict):
        return {name: with_visible_controls(value) for name, value in content.items()}
    return [with_visible_controls(value) for value in content] if isinstance(content, list) else content


def medium_record(name: str, medium: Tensor | None, axes: tuple[str, str], blocks: Blocks) -> dict[str, Any] | None:
    """Encode an image or spectrogram that the model read into `blocks`, a byte for each number; return its record.

    Args:
        name: the name in `blocks`.
        axes: the names of height and width in the record.

    Returns:
        {"block": name, axes[0]: height, axes[1]: width}; None if `medium` is None.
    """
    if medium is None:
        return None
    numbers = medium.detach().cpu().float().numpy()
    if name == "spectrogram" and numbers.size:
        numbers = (numbers - numbers.min()) / max(float(np.ptp(numbers)), 1e-12)
    blocks[name] = encode_shares(numbers)
    return {"block": name} | dict(zip(axes, numbers.shape[-2:], strict=True))
