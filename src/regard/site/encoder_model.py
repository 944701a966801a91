"""An encoder of text, such as MiniLM, as files of a site.

model.onnx         token ids in; queries, keys and values of every layer out
tokenizer.json     what the worker needs to split a text into tokens
"""

import json
from pathlib import Path

from regard.errors import InputError
from regard.site.check import check
from regard.site.exported import Exported
from regard.site.graph import write_model
from regard.site.wordpiece import tokenizer_tables
from regard.tracing.encoding import token_limit
from regard.tracing.model_loading import LoadedModel
from regard.tracing.run import trace
from regard.tracing.trace import Trace

FILES = {"model": "model.onnx", "tokenizer": "tokenizer.json"}
"""The names of the files, by their purpose."""

MOST_TOKENS = 512
"""The most tokens that a text in a site may have, unless the model allows fewer."""


def export_encoder(loaded: LoadedModel, text: str, folder: Path) -> Exported:
    """Write the files of an encoder into a folder, and check that its attention is the same as that of the model.

    Args:
        text: the text that the page shows first.

    Raises:
        InputError: the model cannot be exported, or the attention of the export differs from the model's.
    """
    first = trace(loaded.model, text, tokenizer=loaded.tokenizer)
    check_supported(loaded, first)
    tables = tokenizer_tables(loaded.tokenizer)
    most = min(token_limit(loaded.model, loaded.tokenizer) or MOST_TOKENS, MOST_TOKENS)
    layers = first.attended["encoder"]
    n_heads = next(iter(layers.values())).pattern.n_heads
    write_model(loaded.model, list(layers), n_heads, most, folder / FILES["model"])
    difference = check(folder / FILES["model"], loaded)
    content = json.dumps(tables, ensure_ascii=False, separators=(",", ":"))
    (folder / FILES["tokenizer"]).write_text(content, encoding="utf-8")
    return Exported(
        kind="encoder",
        first=first,
        files=FILES,
        max_tokens=most,
        difference=difference,
        report=f"at most {difference}",
    )


def check_supported(loaded: LoadedModel, first: Trace) -> None:
    """Raise InputError unless the page can compute a model's weights from its queries and keys alone."""
    reason = unsupported_reason(loaded, first)
    if reason:
        raise InputError(
            f"{loaded.name} {reason}; a site runs encoders of text whose weights are a softmax of scaled dot products, "
            "such as MiniLM. regard explore shows other models."
        )


def unsupported_reason(loaded: LoadedModel, first: Trace) -> str:
    """Return the reason why a site cannot show a model; an empty text if it can."""
    if first.kinds != ("encoder",):
        return f"has attention of the kind {' and '.join(first.kinds)}"
    if not loaded.model._can_set_attn_implementation():
        return "computes its attention without the attention interface of transformers"
    patterns = [step.pattern for step in first.attended["encoder"].values()]
    if len({pattern.n_heads for pattern in patterns}) > 1:
        return "has layers of different numbers of heads"
    for pattern in patterns:
        formula = pattern.call.formula
        if formula is None or formula.other_score is not None or formula.bias is not None:
            return "adds other numbers to its scores"
        if formula.softcap is not None or formula.sinks is not None or formula.temperature != 1:
            return "changes its scores after their scaling"
        if pattern.mask is not None and not bool(pattern.mask.keep(pattern.grid.whole(), pattern.device).all()):
            return "masks some keys"
    return ""
