"""Finds out the kind of attention that a module computes: encoder, decoder, or cross-attention."""

import re
from dataclasses import dataclass
from inspect import signature

from torch import nn

CROSS_ATTENTION = re.compile(r"cross|encdec|enc_dec|encoder_attn|encoder_attention|multihead_attn", re.IGNORECASE)
"""Matches module paths of cross-attention, such as "decoder.layers.0.encoder_attn"."""

VISION = re.compile("vision|visual|image", re.IGNORECASE)
"""Matches module paths of vision encoders, such as "vision_model.encoder.layers.0"."""


@dataclass(frozen=True, slots=True)
class KindOfPath:
    """A function from the path of a module in a model to its kind of attention: "encoder", "decoder" or "cross".

    Attributes:
        only_kind: the kind of all modules, in a model with attention of one kind; None = the model has several kinds.
        has_vision: whether the model has a vision encoder and a language model.
    """

    only_kind: str | None
    has_vision: bool = False

    @classmethod
    def of(cls, model: nn.Module) -> "KindOfPath":
        config = getattr(model, "config", None)
        if getattr(config, "vision_config", None) is not None:
            return cls(None, has_vision=True)
        if is_encoder_decoder(model):
            return cls(None)
        return cls("decoder" if is_causal(model) else "encoder")

    def __call__(self, path: str) -> str:
        if self.only_kind is not None:
            return self.only_kind
        if CROSS_ATTENTION.search(path):
            return "cross"
        if self.has_vision:
            return "encoder" if VISION.search(path) else "decoder"
        return next((name for name in path.split(".") if name in ("encoder", "decoder")), "decoder")


def is_encoder_decoder(model: nn.Module) -> bool:
    """Return whether a model has an encoder and a decoder.

    Its configuration does not always tell: that of an encoder alone, such as Whisper's, is that of the whole model.
    """
    is_named_so = getattr(getattr(model, "config", None), "is_encoder_decoder", None)
    if is_named_so is None or (is_named_so and "decoder_input_ids" not in signature(model.forward).parameters):
        return any(CROSS_ATTENTION.search(path) for path, _ in model.named_modules())
    return bool(is_named_so)


def is_causal(model: nn.Module) -> bool:
    """Return whether a model without an encoder uses causal attention.

    True if one of its modules has is_causal=True. Otherwise, True if the model reads token ids, and transformers lists
    its config.model_type among the causal language models, and not among the masked language models.
    """
    if any(getattr(module, "is_causal", False) is True for module in model.modules()):
        return True
    model_type = getattr(getattr(model, "config", None), "model_type", None)
    if model_type is None or getattr(model, "main_input_name", "input_ids") != "input_ids":
        return False
    from transformers.models.auto import modeling_auto

    masked, causal = modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES, modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    return model_type in causal and model_type not in masked
