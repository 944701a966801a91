"""Saves a trace to one safetensors file, and loads it without the model.

    tensors     the query, key, value and context of every attention call, and the parameters of scores; their names
                are numbers
    metadata    JSON: the tokens, and the score, mask and normaliser of every attention call

Attention weights are not in the file: they are computed from queries and keys when they are read.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

from torch import Tensor

from regard.attention.attend import Attended
from regard.attention.call import Call
from regard.attention.pattern import Pattern
from regard.attention.weights import weights_of
from regard.effects.changes import Change
from regard.effects.interchange import Interchange
from regard.errors import InputError, first_paragraph
from regard.json_file import Json, parse_json
from regard.tensor_file import read_tensors, write_tensors
from regard.tracing.files.rule_json import TensorTable, from_json, to_json
from regard.tracing.files.states_json import states_from_json, states_to_json
from regard.tracing.files.statistics_json import statistics_from_json, statistics_to_json
from regard.tracing.generation import WrittenToken
from regard.tracing.patterns_by_layer import SIDES
from regard.tracing.tokens.places import Frame, Patch
from regard.tracing.tokens.readable_tokens import Token
from regard.tracing.watching.answered_pattern import AnsweredPattern
from regard.typed_fields import check_fields
from regard.visible_text import escape_controls

FORMAT = "regard trace"
VERSION = 3


def write_record(path: Path, record: Mapping[str, Any]) -> Path:
    """Write a trace to a file, either completely or not at all; `record` has the fields of the trace by name."""
    if path.suffix != ".safetensors":
        raise InputError(f"a trace is saved as a safetensors file; {path} does not end in .safetensors.")
    if any(isinstance(change, Interchange) for change in record["changes"]):
        raise InputError(
            "a trace with an Interchange cannot be saved, since it needs the other trace too; save the other trace, "
            "and make this one again from it."
        )
    table = TensorTable()
    calls = {
        kind: {str(layer): call_to_json(call, table) for layer, call in layers.items()}
        for kind, layers in record["attended"].items()
    }
    document = {
        "format": FORMAT,
        "version": VERSION,
        "model": escape_controls(record["model"]),
        **{name: record[name] for name in ("text", "target_text")},
        **{side: [token_to_json(token) for token in record[side]] for side in ("source", "target")},
        "sources": sources_to_json(record["sources"]),
        "attended": calls,
        **{name: to_json(record[name], table) for name in ("output", "spectrogram")},
        "images": [to_json(image, table) for image in record["images"]],
        "states": None if record["states"] is None else states_to_json(record["states"], table.add),
        "written": [asdict(one) | {"token": token_to_json(one.token)} for one in record["written"]],
        "changes": [{"kind": type(change).__name__, **asdict(change)} for change in record["changes"]],
    }
    write_tensors(path, table.tensors, {FORMAT: json.dumps(document, ensure_ascii=False)})
    return path


def read_record(path: Path) -> dict[str, Any]:
    """Return the fields of a trace, by name, from a file that `write_record` wrote.

    The file may come from an untrusted source, so its content is checked: every attention call must have one query and
    one key for each token, and the constructors of scores, masks and normalisers check their arguments.
    """
    tensors, metadata = read_tensors(path)
    try:
        document = parse_json(metadata[FORMAT].encode())
        version = document["version"]
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} holds no trace; give a file that trace.save wrote.") from error
    if type(version) is not int or version != VERSION:
        raise InputError(
            f"{path} is a trace of version {version!r:.40} and this version of regard reads version {VERSION}; "
            "read it with the regard that wrote it."
        )
    try:
        return record_from_json(document, tensors)
    except Exception as error:  # a damaged document may raise any exception
        raise InputError(f"{path} is damaged: {first_paragraph(error)}; save the trace again.") from error


def record_from_json(document: Json, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return the fields of a trace from the JSON document in a file; a damaged document may raise any exception."""
    texts = {name: document[name] for name in ("model", "text", "target_text")}
    if not all(isinstance(text, str) for text in texts.values()):
        raise TypeError("the model's name and the texts must be strings.")
    if escape_controls(texts["model"]) != texts["model"]:
        raise ValueError("the model's name has control characters.")
    tokens = {side: tuple(token_from_json(**token) for token in document[side]) for side in ("source", "target")}
    sources = sources_from_json(document.get("sources"))
    attended = attended_from_json(document["attended"], tensors, tokens, sources or {})
    if sources is not None and sources.keys() != attended["encoder"].keys():
        raise ValueError("the layers that have tokens are not the layers of the encoder.")
    all_tokens = [token for side in (*tokens.values(), *(sources or {}).values()) for token in side]
    return {
        **texts,
        **tokens,
        "sources": sources,
        "attended": attended,
        "output": checked_numbers(from_json(document.get("output"), tensors), "output"),
        "spectrogram": checked_numbers(from_json(document.get("spectrogram"), tensors), "spectrogram"),
        "images": images_from_json(document.get("images", ()), tensors, all_tokens),
        "changes": tuple(change_from_json(**change) for change in document.get("changes", ())),
        "states": states_from_json(document.get("states"), tensors, attended),
        "written": tuple(written_from_json(**written) for written in document.get("written", ())),
    }


def attended_from_json(
    document: Json,
    tensors: Mapping[str, Tensor],
    tokens: Mapping[str, tuple[Token, ...]],
    sources: Mapping[int, tuple[Token, ...]],
) -> dict[str, dict[int, Attended]]:
    """Return the attention calls by kind and layer; raise an exception if their sizes do not fit the tokens.

    `sources` has the tokens of each encoder layer, if the layers have different tokens (as in Swin); else it is empty.
    """
    attended = {
        kind: {int(layer): call_from_json(call, tensors) for layer, call in layers.items()}
        for kind, layers in document.items()
    }
    if not any(attended.values()):
        raise ValueError("it has no attention call.")
    for kind, layers in attended.items():
        for layer, call in layers.items():
            own_tokens = sources.get(layer) if kind == "encoder" else None
            n_queries = len(tokens[SIDES[kind].queries] if own_tokens is None else own_tokens)
            n_keys = len(tokens[SIDES[kind].keys] if own_tokens is None else own_tokens)
            shape = call.pattern.shape
            if shape[2:] != (n_queries, n_keys):
                raise ValueError(
                    f"layer {layer} has {shape[2]} queries and {shape[3]} keys, and the texts have {n_queries} and "
                    f"{n_keys} tokens."
                )
    return attended


def sources_to_json(sources: Mapping[int, tuple[Token, ...]] | None) -> Json:
    """Return the tokens of each encoder layer as JSON; equal sequences are stored once. None if `sources` is None."""
    if sources is None:
        return None
    stages = list(dict.fromkeys(sources.values()))
    return {
        "stages": [[token_to_json(token) for token in tokens] for tokens in stages],
        "layers": {str(layer): stages.index(tokens) for layer, tokens in sources.items()},
    }


def sources_from_json(document: Json) -> dict[int, tuple[Token, ...]] | None:
    if document is None:
        return None
    stages = [tuple(token_from_json(**token) for token in tokens) for tokens in document["stages"]]
    return {int(layer): stages[number] for layer, number in document["layers"].items()}


def images_from_json(document: Json, tensors: Mapping[str, Tensor], tokens: Sequence[Token]) -> tuple[Tensor, ...]:
    """Return the pictures that the model read; raise an exception if a patch in `tokens` is in none of them."""
    images = list[Tensor]()
    for part in document:
        image = checked_numbers(from_json(part, tensors), "image")
        if image is None:
            raise TypeError("an image must be a tensor.")
        images.append(image)
    for token in tokens:
        if isinstance(token.place, Patch):
            check_patch(token.place, len(images), len(tokens))
    return tuple(images)


def written_from_json(position: Json, token: Json, probability: Json, alternatives: Json) -> WrittenToken:
    check_fields(WrittenToken, {"position": position, "probability": probability})
    pairs = tuple((text, number) for text, number in alternatives)
    if not all(isinstance(text, str) and type(number) is float for text, number in pairs):
        raise TypeError("alternatives are texts and probabilities.")
    return WrittenToken(position, token_from_json(**token), probability, pairs)


def checked_numbers(value: Any, name: str) -> Tensor | None:
    """Return the field `name` of a trace, as read from a file; raise TypeError if `value` is not allowed for the field.

    Allowed are None, and a floating-point tensor with three axes ("output", "image") or two ("spectrogram"). Only the
    output may have infinite numbers or NaN.
    """
    if value is None:
        return None
    n_axes = {"output": 3, "image": 3, "spectrogram": 2}[name]
    if not (isinstance(value, Tensor) and value.is_floating_point() and value.ndim == n_axes):
        raise TypeError(f"{name} must be a floating-point tensor of {n_axes} axes.")
    if name == "image" and value.shape[0] != 3:
        raise TypeError("image must have three colours.")
    if name != "output" and not bool(value.isfinite().all()):
        raise TypeError(f"{name} must have finite numbers.")
    return value


def token_to_json(token: Token) -> Json:
    """Return a token as JSON; the field `place` is left out if it is None."""
    document = asdict(token)
    return document if token.place is not None else {name: part for name, part in document.items() if name != "place"}


def token_from_json(place: Json = None, **parts: Json) -> Token:
    check_fields(Token, parts)
    if place is None:
        return Token(**parts)
    place_class = Patch if "image" in place else Frame
    check_fields(place_class, place)
    return Token(**parts, place=place_class(**place))


def check_patch(patch: Patch, n_images: int, n_tokens: int) -> None:
    """Raise ValueError if a patch is in none of `n_images` pictures, or has an impossible place or size.

    A picture has no more rows or columns than there are tokens: `n_tokens`.
    """
    if not 0 <= patch.image < n_images:
        raise ValueError("a token stands for a patch of an image that the trace lacks.")
    inside = 0 <= patch.row < n_tokens and 0 <= patch.column < n_tokens and patch.height > 0 and patch.width > 0
    top, left, height, width = patch.cell
    seconds = patch.start_seconds or 0.0, patch.end_seconds or 0.0
    is_finite = all(map(math.isfinite, (top, left, height, width, patch.height, patch.width, *seconds)))
    if not (inside and height > 0 and width > 0 and is_finite):
        raise ValueError(f"a token stands for {patch}, which is not a part of an image.")


def change_from_json(kind: str, **parts: Any) -> Change:
    change_class = {cls.__name__: cls for cls in get_args(Change)}[kind]
    check_fields(change_class, parts)
    return change_class(**parts)


def call_to_json(attended: Attended, table: TensorTable) -> Json:
    pattern = attended.pattern
    if isinstance(pattern, AnsweredPattern):
        return statistics_to_json(attended, pattern, table.add)
    return {
        "backend": attended.backend,
        **{name: table.add(getattr(pattern, name)) for name in ("query", "key", "value")},
        "context": table.add(attended.context),
        **{name: to_json(getattr(pattern, name), table) for name in ("score", "mask", "normalise")},
    }


def call_from_json(document: Json, tensors: Mapping[str, Tensor]) -> Attended:
    if not isinstance(document["backend"], str):
        raise TypeError("the backend's name must be a string.")
    if "statistics" in document:
        return statistics_from_json(document, tensors)
    query, key, value, context = (tensors[document[name]] for name in ("query", "key", "value", "context"))
    for name, tensor in (("query", query), ("key", key), ("value", value), ("context", context)):
        if not tensor.is_floating_point():
            raise ValueError(f"a {name} must have floating-point numbers.")
        if name != "context" and bool(tensor.isnan().any()):  # overflow can make NaN in the context alone
            raise ValueError(f"a {name} must have numbers without NaN.")
    score, mask, normalise = (from_json(document[name], tensors) for name in ("score", "mask", "normalise"))
    call = Call.of(query, key, value, score, mask, normalise)
    if context.shape != (*call.grid.shape[:3], value.shape[3]) or call.grid.batch == 0:
        raise ValueError(f"a context of shape {list(context.shape)} does not belong to {call.grid}.")
    if 0 in call.grid:
        raise ValueError("it has an attention call without queries, keys or heads.")
    # compute one row: some scores, masks and normalisers of a damaged file raise an error only when they are used
    weights_of(call, call.grid.whole().part(queries=range(1)))
    return Attended(context=context, pattern=Pattern(call), backend=document["backend"])
