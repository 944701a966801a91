"""A model that was exported for a site, and the JSON record that describes the model to the page."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.site.block_names import HIDDEN, PARTS, WEIGHTS, block_name
from regard.site.check import Difference
from regard.site.output_projections import projection_record
from regard.tracing.focus import focus_on
from regard.tracing.trace import Trace
from regard.views.page.data import page_data


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A model whose files were written into the folder of a site.

    Attributes:
        kind: "encoder", "causal" or "translator".
        first: the trace of the text that the page shows first.
        alignment: the alignments of this text's translations; None unless the model is a translator.
        next: the most probable tokens after this text, with probabilities; empty unless the model is causal.
        continued_text: the JSON record with which the page continues this text, described by `Going` in
            front/src/trace/data.ts; None unless the model is causal.
        end_ids: the ids of the tokens with which a causal model ends its text.
        files: the names of the model's files, by their content, such as "tokenizer" or "outputs".
        max_tokens: the largest number of tokens of a text; for a translator, the end token is not counted.
        difference: the largest differences between the results of the exported model and of the original.
        int8: whether the exported model has parameters of 8 bits.
        report: a sentence for the user about how the exported model compares with the original.
    """

    kind: str
    first: Trace
    alignment: dict[str, Any] | None = None
    next: tuple[tuple[str, float], ...] = ()
    continued_text: dict[str, Any] | None = None
    end_ids: tuple[int, ...] = ()
    files: dict[str, str]
    max_tokens: int
    difference: Difference
    int8: bool = False
    report: str

    @property
    def name(self) -> str:
        return self.first.model

    def page(self) -> dict[str, Any]:
        """Return the JSON data with which the page opens: the model's attention to the text that is shown first."""
        data = page_data(self.first, focus_on(self.first), self.alignment) | {"live": True, "next": self.next}
        return data if self.continued_text is None else data | {"going": self.continued_text}

    def record(self, folder: Path) -> dict[str, Any]:
        """Return the JSON record of the model; `ModelRecord` in front/src/site/messages.ts describes it."""
        return {
            "name": self.name,
            "kind": self.kind,
            "files": {purpose: file_record(folder / name) for purpose, name in self.files.items()},
            "max_tokens": self.max_tokens,
            "ends": self.end_ids,
            "difference": self.difference.weights,
            "int8": self.int8,
            "template": template_of(self.first, self.page()),
        }


def template_of(first: Trace, page: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a page's JSON data that is the same for all texts: without texts, tokens and arrays."""
    kinds = {
        kind: record | {"layers": [layer_template(first, kind, layer) for layer in first.attended[kind]]}
        for kind, record in page["kinds"].items()
    }
    without_tokens: dict[str, Any] = {"source": [], "target": [], "next": []}
    without_text: dict[str, Any] = {"text": "", "target_text": "", "blocks": {}, "alignment": None, "movement": None}
    # a stored weight of 1 is the number 1, and none is rounded; see `Trace` in front/src/trace/data.ts
    unrounded = {"units": 1, "small": {"below": 0, "step": 1}}
    template = page | without_tokens | without_text | unrounded | {"kinds": kinds}
    template.pop("going", None)  # only the record of one text
    return template


def layer_template(first: Trace, kind: str, layer: int) -> dict[str, Any]:
    """Return the JSON record of one attention layer of a model, without the numbers of its queries, keys and values.

    The page gets these numbers, unrounded, from the web worker that runs the model. Of a recurrent translator,
    the worker sends the weights instead. `kind` is "encoder", "decoder" or "cross"; `layer` counts from 0.
    """
    pattern = first.attended[kind][layer].pattern
    if is_recurrent(first):
        return {"layer": layer, "heads": 1, "mask": None, "masks": 0, "weights": block_name(kind, layer, WEIGHTS)}
    formula = pattern.call.softmax_formula  # text_model.py refuses models without a formula of their weights
    record = {
        "layer": layer,
        "heads": pattern.n_heads,
        "scale": formula.scale,
        "softcap": None,
        "temperature": formula.temperature,
        "sinks": None,
        "bias": None,
        "mask": "causal" if kind == "decoder" else None,
        "masks": 1 if kind == "decoder" else 0,
        "output": projection_record(first, kind, layer),
    }
    for part in PARTS:
        _, n_heads, _, width = getattr(pattern, part).shape
        record[part] = vectors_record(kind, layer, part, n_heads, width)
    return record | states_record(first, kind, layer)


def is_recurrent(first: Trace) -> bool:
    """Return whether a trace is of a recurrent translator, the only kind of model without self-attention."""
    return first.kinds == ("cross",)


def vectors_record(kind: str, layer: int, part: str, n_heads: int, width: int) -> dict[str, Any]:
    """Return the JSON record of a layer's vectors, such as its queries; see `Vectors` in front/src/trace/data.ts.

    `part` is "query", "key", "value" or one of `HIDDEN`; `width` is the number of entries of a vector in one head.
    """
    return {"block": block_name(kind, layer, part), "step": 1, "heads": n_heads, "width": width}


def states_record(first: Trace, kind: str, layer: int) -> dict[str, Any]:
    """Return a JSON record with the names of a layer's hidden vectors; empty if the trace has no hidden vectors.

    A cross-attention has an empty record, too, because the record of the same layer's self-attention has the names.
    """
    if first.states is None or kind == "cross":
        return {}
    width = first.states[kind][layer].before.shape[1]
    return {"states": {part: vectors_record(kind, layer, part, 1, width) for part in HIDDEN}}


def file_record(path: Path) -> dict[str, Any]:
    """Return the name, the size and the start of the SHA-256 of a file of the site."""
    content = path.read_bytes()
    return {"name": path.name, "bytes": len(content), "version": hashlib.sha256(content).hexdigest()[:16]}
