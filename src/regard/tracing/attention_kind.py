"""Tell the kind of attention that a module computes: of an encoder, of a decoder, or from a decoder to an encoder."""

import re
from dataclasses import dataclass

from torch import nn

CROSS_ATTENTION = re.compile(r"cross|encdec|enc_dec|encoder_attn|encoder_attention|multihead_attn", re.IGNORECASE)
"""Matches a part of the path of cross-attention modules."""


VISION = re.compile("vision|visual|image", re.IGNORECASE)
"""Matches a part of the path of the modules that read pictures."""


@dataclass(frozen=True, slots=True)
class KindOfPath:
    """Tells the kind of attention that a module computes (encoder, decoder or cross) from its path in the model.

    Attributes:
        only_kind: the kind of all attention in a model that does not have both an encoder and a decoder, else None.
        sees: whether the encoder is a vision model beside a model of text.
    """

    only_kind: str | None
    sees: bool = False

    @classmethod
    def of(cls, model: nn.Module) -> "KindOfPath":
        """Return the rule for a model: by path if it has an encoder and a decoder, else one kind for all modules."""
        config = getattr(model, "config", None)
        if getattr(config, "vision_config", None) is not None:
            return cls(None, sees=True)
        has_both = getattr(config, "is_encoder_decoder", None)
        if has_both is None:
            has_both = any(CROSS_ATTENTION.search(path) for path, _ in model.named_modules())
        return cls(None if has_both else "decoder" if is_causal(model) else "encoder")

    def __call__(self, path: str) -> str:
        if self.only_kind is not None:
            return self.only_kind
        if CROSS_ATTENTION.search(path):
            return "cross"
        if self.sees:
            return "encoder" if VISION.search(path) else "decoder"
        return next((name for name in path.split(".") if name in ("encoder", "decoder")), "decoder")


def is_causal(model: nn.Module) -> bool:
    """Return whether a model without encoder reads a text from left to right.

    Most modules of such models have an attribute `is_causal`. Without it, a model of transformers is causal if its type
    can be had for language modelling, and not for filling in masked words.
    """
    if any(getattr(module, "is_causal", False) is True for module in model.modules()):
        return True
    model_type = getattr(getattr(model, "config", None), "model_type", None)
    if model_type is None:
        return False
    from transformers.models.auto import modeling_auto

    masked, causal = modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES, modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    return model_type in causal and model_type not in masked
