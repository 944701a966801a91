"""Convert grouped-query attention to ordinary multi-head attention, by repeating the heads of key and value."""

from dataclasses import replace

from einops import repeat
from jaxtyping import Float
from torch import Tensor

from regard.transformer.model import Transformer


def ungroup(model: Transformer) -> Transformer:
    """Return a model in which every query head has its own key and value head; the logits are the same."""
    config = model.config
    if config.n_key_heads in (None, config.n_heads):
        return model
    copy = Transformer(replace(config, n_key_heads=None)).to(model.decoder.to_logits.weight)
    group = config.n_heads // config.n_key_heads
    state = {
        name: repeat_heads(tensor, config.d_head, group) if ".to_key." in name or ".to_value." in name else tensor
        for name, tensor in model.state_dict().items()
    }
    copy.load_state_dict(state)
    return copy.train(model.training)


def repeat_heads(parameter: Float[Tensor, "*shape"], d_head: int, group: int) -> Float[Tensor, "*longer"]:
    """Repeat the `d_head` rows of each head of a key or value projection `group` times."""
    return repeat(parameter, "(heads d_head) ... -> (heads group d_head) ...", d_head=d_head, group=group)
