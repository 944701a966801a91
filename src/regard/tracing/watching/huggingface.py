"""Makes a Hugging Face model compute its attention through regard, by the attention interface of transformers.

transformers calls one attention function for every layer, and puts its second return value, unchanged, into
outputs.attentions. regard's attention function runs a fused kernel, and returns a `Pattern` as the second value. regard
also registers a mask function under the same name; without a mask function, transformers would pass no masks.

regard registers two attention functions, because models use masks in two ways:

    SDPA     for models written for PyTorch's scaled_dot_product_attention: masks are boolean, and a module with
             causal attention gets no mask if there is no padding
    EAGER    for models written only for eager attention: masks are floats that are added to the scores; they are
             causal already, and may include a bias
"""

import copy
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from regard.attention.attend import attend
from regard.attention.masks import Causal, Keep, Mask
from regard.attention.normalise.softmax import Softmax
from regard.attention.pattern import Pattern
from regard.attention.representation import type_name
from regard.attention.scores.dot import ScaledDot
from regard.errors import InputError
from regard.tracing.watching.assisted_decoding import divide_patterns_by_token
from regard.tracing.watching.running_modules import ATTENTION_NAME
from regard.tracing.watching.shared_cache import Sharing

if TYPE_CHECKING:
    from transformers import PreTrainedModel

SDPA, EAGER = "regard", "regard_eager"
"""The names of regard's attention functions in transformers: for models written for SDPA, and for eager attention."""

OTHER_WITH_EAGER = frozenset(
    (
        "aimv2", "aimv2_text_model", "blt", "blt_global_transformer", "blt_local_decoder", "blt_local_encoder",
        "colpali", "diffusion_gemma", "nemotron3_5_asr", "nemotron_asr_streaming", "nemotron_asr_streaming_encoder",
        "paligemma", "phi4_multimodal_audio", "phi4_multimodal_vision",
    )
)  # fmt: skip
"""The model types whose outputs with eager attention differ from those with their default attention, in transformers.

PaliGemma without padding and token types, for example, masks later tokens only with eager attention. A test compares
these names with the table in docs/model-types.md.
"""

BEFORE = "_before_regard"
"""The name of the attribute of a model in which `install` stores the configurations that `uninstall` restores."""


def install(model: "PreTrainedModel") -> "PreTrainedModel":
    """Make a Hugging Face model compute its attention through regard, and return the model.

    The model then runs fused kernels. With output_attentions=True, in the call or in model.config, outputs.attentions
    (or encoder_attentions, decoder_attentions and cross_attentions) is a tuple of `Pattern`s, one for each layer; also
    in the outputs of generate. A `Pattern` is indexed like the tensor of attention weights that transformers returns.
    The model gets its own copy of its configuration, so no other model changes. `uninstall` undoes all of this.

    If a module of the model computes attention that does not pass through regard, a warning names the module at its
    first call. Another warning says so if the model's outputs with eager attention differ from those by default.

    Args:
        model: a PreTrainedModel, or a module around one, such as a PeftModel.

    Raises:
        TypeError: `model` is not a PreTrainedModel, and contains none.
        InputError: a part of the model does not use the attention interface of transformers.
    """
    use_regard(model)
    if model not in WARNING_HOOKS:
        WARNING_HOOKS[model] = warn_of_unseen_attention(model)
    first = models_in(model)[0]
    if first.config.model_type in OTHER_WITH_EAGER:
        warnings.warn(
            f"transformers computes something else for {type(first).__name__} with attn_implementation='eager' than by "
            "default; regard follows the default.",
            stacklevel=2,
        )
    return model


def use_regard(model: "PreTrainedModel") -> None:
    """Make a model compute its attention by regard's attention functions, without the warnings of `install`."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import eager_mask, sdpa_mask

    parts = models_in(model) if isinstance(model, nn.Module) else []
    if not parts:
        raise TypeError(f"install takes a Hugging Face PreTrainedModel; got {type_name(model)}.")
    AttentionInterface.register(SDPA, attention_forward)
    AttentionMaskInterface.register(SDPA, sdpa_mask)
    AttentionInterface.register(EAGER, eager_forward)
    AttentionMaskInterface.register(EAGER, eager_mask)
    divide_patterns_by_token()
    unsupported = sorted({type(part).__name__ for part in parts if not part._can_set_attn_implementation()})
    if unsupported:
        raise InputError(
            f"{', '.join(unsupported)} computes its attention without Hugging Face's attention interface, so its "
            "patterns do not come with its outputs; record them with regard.watching(model)."
        )
    if not hasattr(model, BEFORE):
        setattr(model, BEFORE, give_own_configs(model))
    # model.set_attn_implementation alone would miss submodels with their own configuration, such as T5's stacks.
    for part in parts:
        part.set_attn_implementation(SDPA if is_for_sdpa(part) else EAGER)


def uninstall(model: "PreTrainedModel") -> "PreTrainedModel":
    """Undo `install`: restore the configuration, the attention functions and the hooks of a model; return the model.

    A model on which regard is not installed is returned unchanged.
    """
    for module, config in getattr(model, BEFORE, ()):
        module.config = config
    if hasattr(model, BEFORE):
        delattr(model, BEFORE)
    for hook in WARNING_HOOKS.pop(model, ()):
        hook.remove()
    return model


def give_own_configs(model: nn.Module) -> list[tuple[nn.Module, Any]]:
    """Give all modules of a model copies of their configurations; return each module with its original configuration.

    Modules that share a configuration share the copy.
    """
    from transformers import PretrainedConfig

    originals: list[tuple[nn.Module, Any]] = []
    copies: dict[int, Any] = {}  # deepcopy finds here, and stores, the copies made so far
    for module in model.modules():
        if isinstance(config := getattr(module, "config", None), PretrainedConfig):
            originals.append((module, config))
            module.config = copy.deepcopy(config, copies)
            module.config.__class__ = allowing_attentions(type(config))  # type: ignore[arg-type]
    return originals


@cache
def allowing_attentions(config_class: type[Any]) -> type[Any]:
    """Return a subclass of a configuration class that allows output_attentions=True for every attention function.

    transformers allows it only for eager attention.
    """

    def set_output_attentions(config: Any, value: bool) -> None:
        config._output_attentions = value

    def validate(config: Any) -> None:
        for check in config_class.__class_validators__:
            if check.__name__ != "validate_output_attentions":
                check(config)

    unchecked = property(lambda config: config._output_attentions, set_output_attentions)
    names = {"__module__": config_class.__module__, "__qualname__": config_class.__qualname__}
    subclass: type[Any] = type(config_class.__name__, (config_class,), {"output_attentions": unchecked, **names})
    subclass.validate = validate
    return subclass


WARNING_HOOKS: WeakKeyDictionary[nn.Module, list[RemovableHandle]] = WeakKeyDictionary()
"""The hooks that `warn_of_unseen_attention` added to each model; `uninstall` removes them."""


def warn_of_unseen_attention(model: nn.Module) -> list[RemovableHandle]:
    """Warn after the first call of a module that is named like attention, if it did not call `attention_forward`.

    There is one warning for each class of modules. If there is no such warning, warn once if a model has tensors of its
    own in its outputs.attentions, as the vision tower of Qwen2.5-VL has. Return the hooks that do this.
    """
    warned: set[type] = set()

    def check_first_call(path: str, module: nn.Module, args: Any, output: Any) -> None:
        if torch.compiler.is_compiling() or module not in first_call_hooks:
            return  # in a copy of the model, which has copies of the hooks, they do nothing
        first_call_hooks.pop(module).remove()
        has_pattern = any(part in SHARING for part in module.modules())  # added by `attention_forward`
        if uses_regard(model) and not has_pattern and type(module) not in warned:
            warned.add(type(module))
            warnings.warn(
                f"{path} ({type(module).__name__}) computes no attention that passes through regard, so it has no "
                "pattern in the outputs; regard.watching(model) records what it computes.",
                stacklevel=2,
            )

    def check_outputs(part: nn.Module, args: Any, output: Any) -> None:
        if warned or torch.compiler.is_compiling() or part not in output_hooks or not isinstance(output, Mapping):
            return
        attentions = {name: tensors for name, tensors in output.items() if name.endswith("attentions") and tensors}
        if attentions:
            output_hooks.pop(part).remove()
        for name, tensors in attentions.items():
            if any(isinstance(tensor, Tensor) for tensor in tensors) and uses_regard(model):
                warned.add(type(part))
                warnings.warn(
                    f"outputs.{name} of {type(part).__name__} has tensors of the model's own, and no patterns; "
                    "regard.watching(model) records its attention.",
                    stacklevel=2,
                )
                return

    first_call_hooks = {
        module: module.register_forward_hook(partial(check_first_call, path))
        for path, module in model.named_modules()
        if ATTENTION_NAME.search(type(module).__name__)
    }
    output_hooks = {part: part.register_forward_hook(check_outputs) for part in models_in(model)}
    return [*first_call_hooks.values(), *output_hooks.values()]


def uses_regard(model: nn.Module) -> bool:
    return models_in(model)[0].config._attn_implementation in (SDPA, EAGER)


def is_for_sdpa(model: "PreTrainedModel") -> bool:
    """Return whether a model uses boolean masks and is_causal=True, as PyTorch's SDPA takes them.

    True if the model supports SDPA, or if it supports FlexAttention and all its attention modules have is_causal=True.
    The second condition is true for Gemma 2 and gpt-oss: they do not support SDPA, because they need softcaps (scores
    limited by tanh) or sinks (extra scores in the softmax's denominator). regard supports both.
    """
    if model._supports_sdpa:
        return True
    flags = [getattr(module, "is_causal", None) for module in model.modules()]
    has_causal, has_other = any(flag is True for flag in flags), any(flag is False for flag in flags)
    return bool(model._supports_flex_attn and has_causal and not has_other)


def needs_installing(model: "PreTrainedModel") -> bool:
    """Return whether `regard.install` is necessary, and possible, to record the attention of a model.

    It is not necessary if the model uses PyTorch's SDPA or separate tensor operations: `regard.watching` records these.
    It is possible if transformers can switch the attention function of the model.
    """
    parts = models_in(model)
    watchable = all(
        part._supports_sdpa and part.config._attn_implementation in ("sdpa", "eager", SDPA, EAGER) for part in parts
    )
    return not watchable and all(part._can_set_attn_implementation() for part in parts)


@contextmanager
def installed(model: "PreTrainedModel") -> Iterator[None]:
    was_installed = hasattr(model, BEFORE)
    try:
        use_regard(model)
        yield
    finally:
        if not was_installed:
            uninstall(model)


def models_in(model: nn.Module) -> list["PreTrainedModel"]:
    from transformers import PreTrainedModel

    return [part for part in model.modules() if isinstance(part, PreTrainedModel)]


SHARING: WeakKeyDictionary[nn.Module, Sharing] = WeakKeyDictionary()
"""The `Sharing` of each attention module, which stores keys and values once for all steps of a generated text."""


def attention_forward(
    module: nn.Module,
    query: Float[Tensor, "batch heads queries d_key"],
    key: Float[Tensor, "batch key_heads keys d_key"],
    value: Float[Tensor, "batch key_heads keys d_value"],
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    position_bias: Tensor | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    indices: Int[Tensor, "batch queries chosen"] | None = None,
    cache: Any = None,
    **kwargs: Any,
) -> tuple[Float[Tensor, "batch queries heads d_value"], Pattern]:
    """Return the context and the pattern of one attention call; transformers calls this function for each layer.

    Args:
        attention_mask: a boolean mask, True = may attend; or floats that are added to the scores.
        scaling: the number by which the dot products are multiplied; None = 1 / √d_key.
        is_causal: whether the attention is causal, if there is no `attention_mask`; None = as module.is_causal.
        position_bias: a bias that is added to the scores (T5).
        softcap: scores become softcap · tanh(scores / softcap), as in Gemma 2; None = they are not changed.
        s_aux: for each head, the score of a sink: an extra score in the softmax's denominator (gpt-oss).
        indices: for each query, the indices of the keys to which it may attend (DeepSeek-V3.2); None = all keys.
    """
    if cache is not None:
        raise InputError(
            "regard cannot record attention over a paged cache (continuous batching); "
            "run the model with its own cache, or call regard.uninstall(model)."
        )
    # `block_indices` (MiniMax-M3): the blocks of keys of each query; `sinks` (inkling2): sinks for each query
    if unsupported := [name for name in ("block_indices", "sinks") if kwargs.get(name) is not None]:
        raise InputError(
            f"{type(module).__name__} attends by {' and '.join(unsupported)}, which regard cannot follow exactly; "
            "run the model with set_attn_implementation('eager')."
        )
    mask, bias = mask_and_bias(module, query.shape[2], attention_mask, is_causal, position_bias)
    if indices is not None:
        is_chosen = torch.zeros(*indices.shape[:-1], key.shape[2], dtype=torch.bool, device=key.device)
        is_chosen.scatter_(-1, indices.long(), True)
        only_chosen = Keep(is_chosen[:, None])
        mask = only_chosen if mask is None else mask & only_chosen
    score = ScaledDot(scale=scaling, softcap=softcap, bias=bias)
    # [:] makes a view, which stays on the device of the keys of the pattern when model.to(device) moves `s_aux`
    normalise = Softmax(sinks=None if s_aux is None else s_aux[:])
    attended = attend(query, key, value, score=score, mask=mask, normalise=normalise, dropout=dropout)
    attended = SHARING.setdefault(module, Sharing()).share_memory(attended)
    return attended.context.transpose(1, 2).contiguous(), attended.pattern


def eager_forward(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> tuple[Float[Tensor, "batch queries heads d_value"], Pattern]:
    """Compute attention as `attention_forward` does, but add no causal mask: `attention_mask` is already causal."""
    return attention_forward(module, query, key, value, attention_mask, **{**kwargs, "is_causal": False})


def mask_and_bias(
    module: nn.Module,
    n_queries: int,
    attention_mask: Tensor | None,
    is_causal: bool | None,
    position_bias: Tensor | None,
) -> tuple[Mask | None, Tensor | None]:
    """Return the mask and the bias for a call of `attend`, from the arguments that transformers passes to attention.

    A boolean `attention_mask` is the mask; a float one is added to `position_bias`. Without `attention_mask`, a call
    with more than one query is causal if `is_causal` is True, or if `is_causal` is None and the module's attribute
    is_causal is True or missing. In a causal call, query 0 is at the position of key 0, as in transformers.
    """
    if attention_mask is not None and attention_mask.dtype != torch.bool:
        return None, attention_mask if position_bias is None else position_bias + attention_mask
    if attention_mask is not None:
        return Keep(attention_mask), position_bias
    causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
    return (Causal(offset=0) if causal and n_queries > 1 else None), position_bias
