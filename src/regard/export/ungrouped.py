"""Convert grouped-query attention to ordinary multi-head attention, by repeating the heads of key and value."""

from dataclasses import replace

from einops import repeat

from regard.transformer.model import Transformer


def ungroup(model: Transformer) -> Transformer:
    """Return a model in which every query head has its own key and value head; the logits are the same."""
    config = model.config
    if config.n_key_heads in (None, config.n_heads):
        return model
    like = model.decoder.to_logits.weight  # the copy gets the same data type and device
    copy = Transformer(replace(config, n_key_heads=None)).to(like)
    group = config.n_heads // config.n_key_heads
    state = model.state_dict()
    for name, tensor in state.items():
        if ".to_key." in name or ".to_value." in name:
            state[name] = repeat(
                tensor, "(heads d_head) ... -> (heads group d_head) ...", d_head=config.d_head, group=group
            )
    copy.load_state_dict(state)
    return copy.train(model.training)
