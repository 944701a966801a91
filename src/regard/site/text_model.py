"""An encoder of text, such as MiniLM, or a causal language model, such as GPT-2, as files of a site.

model.onnx         token ids in; queries, keys and values of every layer out, and the output
tokenizer.json     the tables with which the worker splits a text into tokens
model.outputs      the output projections of all layers; see output_projections.py
"""

import inspect
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from regard.attention.masks.causal import Causal
from regard.attention.masks.mask import keep_of_tile
from regard.attention.pattern import Pattern
from regard.errors import InputError, first_paragraph, import_extra
from regard.site.check import check_graph, longest_text
from regard.site.exported import Exported
from regard.site.graph import write_model
from regard.site.output_projections import write_projections
from regard.site.tokenizer import tokenizer_tables
from regard.tracing.for_page import trace_for_page
from regard.tracing.generation import N_NEXT, next_tokens
from regard.tracing.model_loading import LoadedModel
from regard.tracing.run import trace
from regard.tracing.tokens.encoding import token_limit
from regard.tracing.trace import Trace
from regard.views.page.data import continuation_record

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FILES = {"model": "model.onnx", "tokenizer": "tokenizer.json", "outputs": "model.outputs"}

MOST_TOKENS = 512
"""The most tokens of a text; a model may allow fewer."""

MOST_BYTES = 2**31 - 2**24
"""The most bytes of a model's parameters in float32: an ONNX file is smaller than 2 GiB."""


def export_text_model(loaded: LoadedModel, text: str, folder: Path, int8: bool = False) -> Exported:
    """Write the files of a model into a folder, and check that the exported model has the same attention and output.

    `text` is the text with which the page opens. `int8`: the parameters become 8-bit integers, and the differences are
    measured, but not limited.
    """
    first = trace_for_page(loaded.model, text, tokenizer=loaded.tokenizer)
    max_tokens = min(token_limit(loaded.model, loaded.tokenizer) or MOST_TOKENS, MOST_TOKENS)
    check_supported(loaded, first)
    # check the longest text, too: a sliding window, which a site does not support, masks keys only in long texts
    check_supported(loaded, trace(loaded.model, longest_text(loaded.tokenizer, max_tokens), tokenizer=loaded.tokenizer))
    tables = tokenizer_tables(loaded.tokenizer, loaded.model.config.vocab_size)
    kind = first.kinds[0]  # the only one: `check_supported` refuses other models
    layers = {layer: step.pattern for layer, step in first.attended[kind].items()}
    try:
        write_model(loaded.model, kind, layers, max_tokens, folder / FILES["model"])
    except torch.onnx.OnnxExporterError as error:  # raised, for instance, if positions depend on the text's length
        cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
        raise InputError(
            f"{loaded.name} cannot be written as an ONNX graph: {first_paragraph(cause)}; "
            "regard explore shows this model."
        ) from error
    if int8:
        quantise(folder / FILES["model"])
    difference = check_graph(folder / FILES["model"], loaded, max_tokens, int8)
    content = json.dumps(tables, ensure_ascii=False, separators=(",", ":"))
    (folder / FILES["tokenizer"]).write_text(content, encoding="utf-8")
    write_projections(first, folder / FILES["outputs"])
    exported = Exported(
        kind="encoder",
        first=first,
        files=FILES,
        max_tokens=max_tokens,
        difference=difference,
        int8=int8,
        report=f"at most {difference}" + (", with 8-bit parameters" if int8 else ""),
    )
    if kind == "encoder" or first.output is None:
        return exported
    next_logits = first.output[0, -1]  # the logits after the last token
    return replace(
        exported,
        kind="causal",
        next=tuple(next_tokens(loaded.tokenizer, next_logits, N_NEXT)),
        continued_text=continuation_record(text, continuation=(), logits=next_logits),
        end_ids=end_tokens(loaded.model),
    )


def quantise(path: Path) -> None:
    """Store the parameters of the matrix products in an ONNX file as 8-bit integers, a quarter of the bytes."""
    quantization = import_extra("onnxruntime.quantization", "export,huggingface")
    quantization.quantize_dynamic(path, path, weight_type=quantization.QuantType.QInt8, per_channel=True)


def end_tokens(model: "PreTrainedModel") -> tuple[int, ...]:
    ends = getattr(model.generation_config, "eos_token_id", None)
    if ends is None:
        return ()
    return tuple(ends) if isinstance(ends, list) else (ends,)


def check_supported(loaded: LoadedModel, model_trace: Trace) -> None:
    reasons = (unsupported_pattern(model_trace.kinds[0], pattern) for pattern in patterns(model_trace))
    reason = unsupported_model(loaded.model, model_trace) or next(filter(None, reasons), "")
    if reason:
        raise InputError(
            f"{loaded.name} {reason}; a site runs encoders of text and causal language models whose weights are a "
            "softmax of scaled dot products, such as MiniLM and GPT-2. regard explore shows other models."
        )


def patterns(model_trace: Trace) -> list[Pattern]:
    return [step.pattern for layers in model_trace.attended.values() for step in layers.values()]


def unsupported_model(model: "PreTrainedModel", model_trace: Trace) -> str:
    """Return why a site cannot run a model, or "" if it can; `model_trace` is the model's attention to any text."""
    if model_trace.kinds not in (("encoder",), ("decoder",)):
        return f"has {', '.join(model_trace.kinds)} attention"
    if not model._can_set_attn_implementation():
        return "computes its attention without the attention interface of transformers"
    parameters = inspect.signature(model.forward).parameters
    if model_trace.kinds == ("decoder",) and "logits_to_keep" not in parameters:  # `CausalGraph` gives it
        return "cannot compute the logits of chosen tokens alone"
    if model_trace.kinds == ("decoder",) and "position_ids" not in parameters:
        return "does not take the positions of tokens, so it cannot go on after tokens that it has read"
    if len({pattern.n_heads for pattern in patterns(model_trace)}) > 1:
        return "has layers of different numbers of heads"
    n_bytes = 4 * sum(parameter.numel() for parameter in model.parameters())
    if n_bytes > MOST_BYTES:
        return f"has {n_bytes / 1e9:.1f} GB of parameters in float32, more than the 2 GB that a browser loads"
    return ""


def unsupported_pattern(kind: str, pattern: Pattern) -> str:
    """Return why a site cannot compute the weights of an "encoder" or "decoder" layer; an empty text if it can."""
    formula = pattern.call.formula
    if formula is None or formula.other_score is not None or formula.bias is not None:
        return "adds other numbers to its scores"
    if formula.softcap is not None or formula.sinks is not None or formula.temperature != 1:
        return "changes its scores after their scaling"
    pairs, device = pattern.grid.whole(), pattern.device  # all pairs of a query and a key
    expected = Causal().keep(pairs, device) if kind == "decoder" else torch.ones(pattern.shape[2:], dtype=torch.bool)
    kept = torch.ones_like(expected) if pattern.mask is None else keep_of_tile(pattern.mask, pairs, device)
    if not bool((kept == expected).all()):
        return "masks other keys than those after a query" if kind == "decoder" else "masks some keys"
    return ""
