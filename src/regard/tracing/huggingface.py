"""Install regard in a Hugging Face model, through the attention interface of transformers.

transformers calls one attention function for every layer and puts its second result, unchanged, into
outputs.attentions. regard's function runs the fused kernel and returns a `Pattern` as the second result. A mask
function is registered under the same name: without one, transformers silently drops the masks.

regard registers two implementations, because models use masks in two ways. Most models are written for PyTorch's SDPA:
masks are boolean, and a causal module gets no mask if causality is the only constraint. Other models are written for
eager attention only: masks are floats added to the scores, the model may add to them, and causality is in the mask.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import RLock
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.attend import Attended, attend
from regard.attention.masks import Causal, Keep, Mask
from regard.attention.normalise.softmax import Softmax
from regard.attention.pattern import Pattern
from regard.attention.scores.dot import ScaledDot
from regard.errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

SDPA, EAGER = "regard", "regard_eager"
"""The registered names: for models that are written for PyTorch's SDPA, and for models written for eager attention."""

UNSUPPORTED_ARGUMENTS = "block_indices", "sinks"
"""Arguments of some models' attention that change its result and that regard does not implement."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordedStep:
    """One attention step of a model that ran, and the layer number of its module, if it has one."""

    attended: Attended
    layer: int | None


INSTALLING = RLock()
"""Held while a model's attention implementation is changed: threads that share the model share its implementation."""

RECORDING: ContextVar[list[RecordedStep] | None] = ContextVar("recording", default=None)
"""The list that attention steps are recorded in; None outside of `installed`."""


def install(model: "PreTrainedModel") -> "PreTrainedModel":
    """Make a Hugging Face model compute its attention through regard, and return the model.

    Its forward runs fused kernels, and with output_attentions=True its outputs' attentions (encoder_attentions,
    decoder_attentions, cross_attentions, and those of generate) are tuples of `Pattern`s, indexed as the tensors were.
    `model.set_attn_implementation("sdpa")` uninstalls it, or "eager" for a model without SDPA.

    Raises:
        TypeError: the model is no PreTrainedModel.
        InputError: a part of the model does not use the attention interface of transformers.
    """
    from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
    from transformers.masking_utils import eager_mask, sdpa_mask

    if not isinstance(model, PreTrainedModel):
        raise TypeError(f"install takes a Hugging Face PreTrainedModel; got a {type(model).__name__}.")
    AttentionInterface.register(SDPA, attention_forward)
    AttentionMaskInterface.register(SDPA, sdpa_mask)
    AttentionInterface.register(EAGER, eager_forward)
    AttentionMaskInterface.register(EAGER, eager_mask)
    closed = sorted({type(part).__name__ for part in models_in(model) if not part._can_set_attn_implementation()})
    if closed:
        raise InputError(
            f"{', '.join(closed)} computes its attention without Hugging Face's attention interface, so its patterns "
            "cannot be seen exactly; use a model that follows it (most do: BERT, GPT-2, Llama, T5, Marian …)."
        )
    for part in models_in(
        model
    ):  # set on the whole model, it misses parts with a configuration of their own, such as T5's stacks
        part.set_attn_implementation(SDPA if is_for_sdpa(part) else EAGER)
    return model


def is_for_sdpa(model: "PreTrainedModel") -> bool:
    """Return whether a model uses masks, and calls without a mask, as PyTorch's SDPA does.

    A model that supports FlexAttention adds nothing to its masks. If all its modules are marked causal too, it is
    causal without a mask: so are Gemma 2 and gpt-oss, which lack SDPA only for their softcaps and sinks.
    """
    if model._supports_sdpa:
        return True
    causal = [module.is_causal for module in model.modules() if isinstance(getattr(module, "is_causal", None), bool)]
    return bool(model._supports_flex_attn and causal and all(causal))


@contextmanager
def installed(model: "PreTrainedModel") -> Iterator[list[RecordedStep]]:
    """Run a model through regard, in evaluation mode, within a `with` block; yield the list of its attention steps."""
    with INSTALLING:
        before = [(part.config, part.config._attn_implementation) for part in models_in(model)]
        modes = [(module, module.training) for module in model.modules()]
        recorded: list[RecordedStep] = []
        token = RECORDING.set(recorded)
        try:
            install(model).eval()
            yield recorded
        finally:
            RECORDING.reset(token)
            for module, training in modes:
                module.training = training
            for config, implementation in before:
                config._attn_implementation = implementation


def models_in(model: nn.Module) -> list["PreTrainedModel"]:
    """Return all Hugging Face models among a model's modules, the model itself included."""
    from transformers import PreTrainedModel

    return [part for part in model.modules() if isinstance(part, PreTrainedModel)]


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
    """Return one attention step of a model, called by transformers; its arguments are transformers' own.

    Args:
        indices: the keys that an indexer chose for each query, which attends to no other key (DeepSeek-V3.2).

    Raises:
        InputError: the step uses a feature that regard cannot reproduce exactly.
    """
    if cache is not None:
        raise InputError(
            "regard cannot see attention over a paged cache (continuous batching); "
            "run the model with its own cache, or undo it with set_attn_implementation('sdpa')."
        )
    if unsupported := [name for name in UNSUPPORTED_ARGUMENTS if kwargs.get(name) is not None]:
        raise InputError(
            f"{type(module).__name__} attends by {' and '.join(unsupported)}, which regard cannot follow exactly; "
            "run the model with set_attn_implementation('eager')."
        )
    mask, bias = mask_and_bias(module, query.shape[2], attention_mask, is_causal, position_bias)
    if indices is not None:
        chosen = torch.zeros(*indices.shape[:-1], key.shape[2], dtype=torch.bool, device=key.device)
        kept = Keep(chosen.scatter_(-1, indices.long(), True)[:, None])
        mask = kept if mask is None else mask & kept
    attended = attend(
        query,
        key,
        value,
        score=ScaledDot(scale=scaling, softcap=softcap, bias=bias),
        mask=mask,
        normalise=Softmax(sinks=None if s_aux is None else s_aux[:]),  # a view stays as it is when the model is moved
        dropout=dropout,
    )
    if (recorded := RECORDING.get()) is not None:
        layer = getattr(module, "layer_idx", None)
        recorded.append(RecordedStep(attended, layer if isinstance(layer, int) else None))
    return attended.context.transpose(1, 2).contiguous(), attended.pattern


def eager_forward(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> tuple[Float[Tensor, "batch queries heads d_value"], Pattern]:
    """Return one attention step of a model that is written for eager attention: causal only through its mask."""
    return attention_forward(module, query, key, value, attention_mask, **{**kwargs, "is_causal": False})


def mask_and_bias(
    module: nn.Module,
    n_queries: int,
    attention_mask: Tensor | None,
    is_causal: bool | None,
    position_bias: Tensor | None,
) -> tuple[Mask | None, Tensor | None]:
    """Return the mask and the bias of a call, from the four forms in which transformers passes them.

    A call is causal if `is_causal` is True, or if it is None and the module is causal, but only without a mask and with
    more than one query; the first query is then at the first key (sdpa_attention_forward of transformers).
    """
    if attention_mask is not None and attention_mask.dtype != torch.bool:
        return None, attention_mask if position_bias is None else position_bias + attention_mask
    if attention_mask is not None:
        return Keep(attention_mask), position_bias
    causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
    return (Causal(offset=0) if causal and n_queries > 1 else None), position_bias
