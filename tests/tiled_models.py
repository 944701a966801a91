"""Parts of small models of pictures and text whose pictures have tiles, crops or frames."""

import copy

import numpy as np
import torch
from PIL import Image

TEXT = {
    "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 37, "vocab_size": 30600,
}  # fmt: skip
VISION = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37}


def sharp(model):
    torch.manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=0.3)
            elif "newline" in name:
                parameter.normal_()
    return model.eval()


def without_vision_attention(model):
    """A copy of the model in which a patch does not learn of other patches before the text reads it."""
    model = copy.deepcopy(model)
    for name, module in model.named_modules():
        if "vision" in name and name.endswith(("out_proj", "projection_layer", "o_proj")):
            for parameter in module.parameters():
                torch.nn.init.zeros_(parameter)
    return model


def tokenizer_with(minilm, *tokens):
    tokenizer = copy.deepcopy(minilm.tokenizer)
    tokenizer.init_kwargs.pop("max_length")  # 128 tokens, less than two pictures have
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.add_special_tokens({"additional_special_tokens": list(tokens)})
    return tokenizer


def random_picture(height, width, seed=0):
    numbers = np.random.default_rng(seed).integers(0, 200, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(numbers)
