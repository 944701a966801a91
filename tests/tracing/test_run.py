"""Models whose attention a trace cannot record, or that have none."""

import transformers
from refusals import refusal

import regard
from regard import InputError

SNAKE = "The snake is very dangerous because it has a venom."


def test_attention_that_cannot_be_recorded_is_named(minilm):
    """MiniMax has linear attention in some of its layers, which has no weights."""
    config = transformers.MiniMaxConfig(
        vocab_size=30_522, hidden_size=24, intermediate_size=8, num_hidden_layers=2, num_attention_heads=3,
        num_key_value_heads=3, num_local_experts=2,
    )  # fmt: skip
    assert refusal(InputError, regard.trace, transformers.MiniMaxModel(config), SNAKE, tokenizer=minilm.tokenizer) == (
        "MiniMaxModel computes attention in layers.1.self_attn that cannot be recorded: it computes no softmax of "
        "scores whose result is multiplied with values; regard.watching(model) records the attention of its other "
        "modules."
    )


def test_a_model_without_attention_is_refused(minilm):
    sizes = {"vocab_size": 30_522, "hidden_size": 24, "intermediate_size": 7, "num_hidden_layers": 1}
    model = transformers.FNetModel(transformers.FNetConfig(**sizes))
    assert refusal(InputError, regard.trace, model, SNAKE, tokenizer=minilm.tokenizer) == (
        "FNetModel computed no encoder attention, so there is nothing to record."
    )
