"""regard inside Hugging Face models, through their attention interface: fused kernels, and patterns that cost nothing.

Hugging Face calls one attention function for every layer and puts its second result, unchanged, into
outputs.attentions. Ours runs the fused kernel and gives a `Pattern` there. The mask function is registered under the
same name: without one, transformers drops the masks without a word.

There are two names, since models mean two things by masks. Most are written for PyTorch's SDPA: a mask is boolean, and
where none is needed but that of the future, a module that says it is causal gets none. Some are written for eager
attention alone: a mask is numbers that are added, they may add to it themselves, and only the mask bars the future.
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
"""Our names for models that are written for PyTorch's SDPA, and for those that are written for eager attention."""

UNSEEN = "block_indices", "sinks"
"""What some models hand to their attention that changes it, and that regard cannot follow."""


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """One attention step of a model that ran, and the number that its module bears, if any."""

    attended: Attended
    layer: int | None


INSTALLING = RLock()
"""A model's implementation is its own, not a thread's: one thread at a time changes it and puts it back."""

RECORDING: ContextVar[list[Recorded] | None] = ContextVar("recording", default=None)


def install(model: "PreTrainedModel") -> "PreTrainedModel":
    """Let a Hugging Face model attend through regard, and give the model back.

    Its forward runs fused kernels, and with output_attentions=True its outputs' attentions (encoder_attentions,
    decoder_attentions, cross_attentions, and those of generate) are tuples of `Pattern`s, indexed as the tensors were.
    `model.set_attn_implementation("sdpa")` undoes it, or "eager" for a model that has no other.

    Raises:
        TypeError: the model is no PreTrainedModel.
        InputError: the model does not use Hugging Face's attention interface, so nobody can get in.
    """
    from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
    from transformers.masking_utils import eager_mask, sdpa_mask

    if not isinstance(model, PreTrainedModel):
        raise TypeError(f"install takes a Hugging Face PreTrainedModel; got a {type(model).__name__}.")
    AttentionInterface.register(SDPA, attention_forward)
    AttentionMaskInterface.register(SDPA, sdpa_mask)
    AttentionInterface.register(EAGER, eager_forward)
    AttentionMaskInterface.register(EAGER, eager_mask)
    shut = sorted({type(part).__name__ for part in models_in(model) if not part._can_set_attn_implementation()})
    if shut:
        raise InputError(
            f"{', '.join(shut)} computes its attention without Hugging Face's attention interface, so its patterns "
            "cannot be seen exactly; use a model that follows it (most do: BERT, GPT-2, Llama, T5, Marian …)."
        )
    for part in models_in(model):  # the whole does not reach every part: T5's stacks have configurations of their own
        part.set_attn_implementation(SDPA if is_for_sdpa(part) else EAGER)
    return model


def is_for_sdpa(model: "PreTrainedModel") -> bool:
    """Whether a model means the same as PyTorch's SDPA by a mask, and by none.

    One that FlexAttention runs adds nothing to its masks, and one whose modules all say that they are causal is causal
    where it has no mask: Gemma 2 and gpt-oss, which are kept from SDPA by their softcaps and sinks alone.
    """
    if model._supports_sdpa:
        return True
    causal = [module.is_causal for module in model.modules() if isinstance(getattr(module, "is_causal", None), bool)]
    return bool(model._supports_flex_attn and causal and all(causal))


@contextmanager
def installed(model: "PreTrainedModel") -> Iterator[list[Recorded]]:
    """Within this, the model attends through regard in evaluation mode; gives all its attention steps, in order."""
    with INSTALLING:
        before = [(part.config, part.config._attn_implementation) for part in models_in(model)]
        modes = [(module, module.training) for module in model.modules()]
        recorded: list[Recorded] = []
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
    """A model and the Hugging Face models that it is made of."""
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
    """One attention step of a model, called by transformers; its arguments are transformers' own.

    Args:
        indices: the keys that an indexer chose for each query; no other is seen (DeepSeek-V3.2).

    Raises:
        InputError: the step is one that regard cannot follow exactly.
    """
    if cache is not None:
        raise InputError(
            "regard cannot see attention over a paged cache (continuous batching); "
            "run the model with its own cache, or undo it with set_attn_implementation('sdpa')."
        )
    if unseen := [name for name in UNSEEN if kwargs.get(name) is not None]:
        raise InputError(
            f"{type(module).__name__} attends by {' and '.join(unseen)}, which regard cannot follow exactly; "
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
        recorded.append(Recorded(attended, layer if isinstance(layer, int) else None))
    return attended.context.transpose(1, 2).contiguous(), attended.pattern


def eager_forward(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> tuple[Float[Tensor, "batch queries heads d_value"], Pattern]:
    """One attention step of a model that is written for eager attention: only its mask makes it causal."""
    return attention_forward(module, query, key, value, attention_mask, **{**kwargs, "is_causal": False})


def mask_and_bias(
    module: nn.Module,
    n_queries: int,
    attention_mask: Tensor | None,
    is_causal: bool | None,
    position_bias: Tensor | None,
) -> tuple[Mask | None, Tensor | None]:
    """What transformers says in four ways, as a mask and a bias.

    A call is causal when it says so, else when its module does, and only if it has no mask and more than one query;
    queries and keys then start together (transformers' sdpa_attention_forward).
    """
    if attention_mask is not None and attention_mask.dtype != torch.bool:
        return None, attention_mask if position_bias is None else position_bias + attention_mask
    if attention_mask is not None:
        return Keep(attention_mask), position_bias
    causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
    return (Causal(offset=0) if causal and n_queries > 1 else None), position_bias
