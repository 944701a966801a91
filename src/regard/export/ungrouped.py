"""A Transformer whose queries share keys and values, as the equal one in which every head has its own."""

from dataclasses import replace

from einops import repeat
from jaxtyping import Float
from torch import Tensor

from regard.transformer.model import Transformer


def ungrouped(model: Transformer) -> Transformer:
    """A model with n_key_heads = n_heads that gives the same logits; the same model where it has that already."""
    config = model.config
    if config.n_key_heads in (None, config.n_heads):
        return model
    copy = Transformer(replace(config, n_key_heads=None)).to(model.decoder.to_logits.weight)
    group = config.n_heads // config.n_key_heads
    state = {
        name: repeated(tensor, config.d_head, group) if ".to_key." in name or ".to_value." in name else tensor
        for name, tensor in model.state_dict().items()
    }
    copy.load_state_dict(state)
    return copy.train(model.training)


def repeated(parameter: Float[Tensor, "*shape"], d_head: int, group: int) -> Float[Tensor, "*longer"]:
    """A projection's weight or bias with each head once for every query's head that it serves."""
    return repeat(parameter, "(heads d_head) ... -> (heads group d_head) ...", d_head=d_head, group=group)
