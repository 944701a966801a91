"""Tests of one head of a model as a worked example: its numbers give the head's own queries, keys and weights."""

import copy
from dataclasses import replace

import pytest
import torch
import transformers
from refusals import refusal
from torch import nn
from torch.testing import assert_close

import regard
from regard import InputError
from regard.by_hand.model_head import head_scores, head_softmax, model_inputs
from regard.by_hand.work_out import work_out
from regard.tracing.decoder_note import DECODER_NOTE

SNAKE = "The snake is very dangerous because it has a venom."
VOCABULARY = {"vocab_size": 30_522, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SIZES = {"hidden_size": 24, "intermediate_size": 37, "num_hidden_layers": 2, "num_attention_heads": 6} | VOCABULARY
GROUPED = SIZES | {"num_key_value_heads": 2, "max_position_embeddings": 64}
TWO = {
    "d_model": 24, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 6,
    "encoder_ffn_dim": 37, "decoder_ffn_dim": 37, "max_position_embeddings": 64, "decoder_start_token_id": 0,
} | VOCABULARY  # fmt: skip

PROJECTED = {
    "bert": transformers.BertConfig(**SIZES),
    "distilbert": transformers.DistilBertConfig(vocab_size=30_522, dim=24, hidden_dim=37, n_layers=2, n_heads=6),
    "gpt2, whose three projections are one Conv1D": transformers.GPT2Config(
        n_positions=64, n_embd=24, n_layer=2, n_head=6, **VOCABULARY
    ),
}
DIRECT = {
    "llama with rotary positions": transformers.LlamaConfig(**GROUPED),
    "qwen 3 with normed queries": transformers.Qwen3Config(**GROUPED, head_dim=4),
    "gpt-oss with sinks": transformers.GptOssConfig(
        **GROUPED | {"intermediate_size": 40}, head_dim=4, sliding_window=3, num_local_experts=4
    ),
    "gemma 2 with a softcap": transformers.Gemma2Config(**GROUPED, head_dim=4, attn_logit_softcapping=2.0),
    "gpt-neox, whose heads lie one after another": transformers.GPTNeoXConfig(**SIZES, max_position_embeddings=64),
}
TRANSLATORS = {
    "marian": transformers.MarianConfig(**TWO),
    "t5 with a position bias": transformers.T5Config(
        d_model=24, d_kv=4, d_ff=37, num_layers=2, num_heads=6, decoder_start_token_id=0, **VOCABULARY
    ),
}


def random_model(kind, config):
    """A random model whose attention is sharp."""
    torch.manual_seed(0)
    model = kind.from_config(copy.deepcopy(config)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1 or name.endswith(("sinks", "bias")):
                parameter.normal_(std=0.4)
    return model


def assert_equal_to_the_head(numbers, model, name, tokenizer, target=None):
    """Fail unless the worked example of the numbers has the weights and the context of the model's own head."""
    has_states = model.config.model_type != "gpt_oss"  # its feed-forward part is no linear layer
    keep = ("hidden",) if has_states else ()
    head = regard.trace(model, SNAKE, target=target, tokenizer=tokenizer, keep=keep)[name]
    worked = work_out(numbers)
    with torch.no_grad():
        steps = head.pattern.steps(0, head.head)
    assert_close(torch.from_numpy(worked["weights"].matrix), steps.weights.double(), atol=5e-6, rtol=1e-4)
    for stage, part in (("Q", steps.query), ("K", steps.key), ("V", steps.value), ("context", steps.context)):
        assert_close(torch.from_numpy(worked[stage].matrix), part.double(), atol=1e-5, rtol=1e-4)
    if has_states:
        added = torch.stack([head.contributions(query).vectors.sum(dim=0) for query in range(len(head.queries))])
    else:
        first = head.head * steps.context.shape[1]
        added = steps.context @ model.model.layers[head.layer].self_attn.o_proj.weight.T[first:][:4]
    assert_close(torch.from_numpy(worked["output"].matrix), added.detach().double(), atol=2e-5, rtol=1e-4)
    assert float(steps.weights.max()) > 2 / len(head.keys), "the test's attention is too flat to show a mistake"


def test_minilms_head_that_finds_the_snake(minilm, snake):
    numbers, query = model_inputs(None, SNAKE, head="L3H1", token="it")
    assert list(numbers.matrices) == ["x", "W_q", "b_q", "W_k", "b_k", "W_v", "b_v", "W_o"]
    assert (numbers.title, numbers.notes, query) == ("MiniLM · L3H1", (), 7)
    attention = minilm.model.encoder.layer[3].attention.self
    assert torch.equal(torch.from_numpy(numbers.matrices["W_q"]), attention.query.weight[32:64].T.double())
    assert torch.equal(torch.from_numpy(numbers.matrices["b_v"]), attention.value.bias[None, 32:64].double())
    output = minilm.model.encoder.layer[3].attention.output.dense
    assert torch.equal(torch.from_numpy(numbers.matrices["W_o"]), output.weight[:, 32:64].T.double())
    head = snake["L3H1"].pattern
    query_rows = numbers.matrices["x"] @ numbers.matrices["W_q"] + numbers.matrices["b_q"]
    assert_close(torch.from_numpy(query_rows), head.query[0, 1].double(), atol=1e-5, rtol=1e-5)
    worked = work_out(numbers, query)
    assert f"{worked['weights'].matrix[7, 2]:.3f}" == "0.674"
    assert worked["scores"].formula == "products / √d_k, d_k = 32"
    assert_equal_to_the_head(numbers, minilm.model, "L3H1", minilm.tokenizer)


@pytest.mark.parametrize("name", PROJECTED)
def test_x_and_the_parameters_are_found(name, minilm):
    model = random_model(transformers.AutoModel, PROJECTED[name])
    for head in ("L0H0", "L1H4"):
        numbers, _ = model_inputs(model, SNAKE, head=head, tokenizer=minilm.tokenizer)
        assert numbers.notes == ()
        assert numbers.matrices["x"].shape == (13, 24)
        assert numbers.matrices["W_k"].shape == (24, 4)
        assert_equal_to_the_head(numbers, model, head, minilm.tokenizer)


@pytest.mark.parametrize("name", DIRECT)
def test_where_no_product_is_the_query_it_starts_from_q_k_and_v_and_says_so(name, minilm):
    model = random_model(transformers.AutoModelForCausalLM, DIRECT[name])
    numbers, _ = model_inputs(model, SNAKE, head="L1H4", tokenizer=minilm.tokenizer)
    assert list(numbers.matrices) == ["Q", "K", "V", "W_o"]
    assert numbers.notes == (
        "Q and K are not plain products x W here (positions or norms come in between), "
        "so the numbers start from the Q, K and V that the attention got.",
    )
    assert_equal_to_the_head(numbers, model, "L1H4", minilm.tokenizer)


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
@pytest.mark.parametrize("name", TRANSLATORS)
def test_translators(name, kind, minilm):
    model = random_model(transformers.AutoModelForSeq2SeqLM, TRANSLATORS[name])
    how = {"target": "it has a venom", "tokenizer": minilm.tokenizer}
    numbers, _ = model_inputs(model, SNAKE, head=f"{kind} L1H3", **how)
    assert numbers.notes == (() if kind == "encoder" else (DECODER_NOTE,))
    assert ("memory" in numbers.matrices) == (kind == "cross")
    assert (len(numbers.queries), len(numbers.keys)) == {"encoder": (13, 13), "decoder": (6, 6), "cross": (6, 13)}[kind]
    assert_equal_to_the_head(numbers, model, f"{kind} L1H3", **how)


def test_a_heads_part_of_a_bias_that_is_a_rule(handmade):
    head = handmade("a b c d e")["L1H2"]
    query = head.pattern.query
    pattern = regard.attend(query, query, query, score=regard.ScaledDot(bias=regard.Alibi())).pattern
    distance = (torch.arange(5) - torch.arange(5)[:, None]).abs().double()
    slope = {0: 2**-4, 1: 2**-8, 2: 2**-2}[head.head]  # of three heads
    assert torch.equal(torch.from_numpy(head_scores(replace(head, pattern=pattern))["bias"][0]), -slope * distance)


def test_scores_and_weights_that_explain_cannot_work_out_are_refused(handmade):
    head = handmade("a b c d e")["L1H2"]
    query = head.pattern.query
    pattern = regard.attend(query, query, query, score=regard.Cosine(), normalise=regard.Sparsemax()).pattern
    assert refusal(InputError, head_scores, replace(head, pattern=pattern)) == (
        "L1H2 computes its scores by Cosine, but `regard explain` works out only dot products; `regard look` shows its "
        "weights."
    )
    assert refusal(InputError, head_softmax, replace(head, pattern=pattern)) == (
        "L1H2 computes its weights by Sparsemax(), but `regard explain` works out only softmax; `regard look` shows "
        "its weights."
    )


def test_a_layer_that_does_more_than_multiply_is_not_taken_for_one(minilm):
    """Its output is the query, but its parameters alone do not give it (as with an adapter around a layer)."""

    class Adapted(nn.Linear):
        def forward(self, x):
            return super().forward(x) * 2

    model = random_model(transformers.AutoModel, PROJECTED["bert"])
    attention = model.encoder.layer[1].attention.self
    adapted = Adapted(24, 24)
    adapted.load_state_dict(attention.query.state_dict())
    attention.query = adapted
    numbers, _ = model_inputs(model, SNAKE, head="L1H2", tokenizer=minilm.tokenizer)
    assert list(numbers.matrices) == ["Q", "K", "V", "W_o"]
    assert numbers.notes[0].startswith("Q is not a plain product x W here")
    assert_equal_to_the_head(numbers, model, "L1H2", minilm.tokenizer)


def test_keys_and_values_from_different_inputs_start_from_q_k_and_v(minilm):
    model = random_model(transformers.AutoModel, PROJECTED["bert"])
    value = model.encoder.layer[1].attention.self.value
    value.register_forward_pre_hook(lambda module, inputs: (inputs[0] + 1,))
    numbers, _ = model_inputs(model, SNAKE, head="L1H2", tokenizer=minilm.tokenizer)
    assert numbers.notes == (
        "K and V come from different inputs here, so the numbers start from the Q, K and V that the attention got.",
    )


def test_an_output_projection_that_is_more_than_a_product_is_left_out(minilm):
    model = random_model(transformers.AutoModel, PROJECTED["bert"])
    model.encoder.layer[1].attention.output.dense.register_forward_hook(lambda module, inputs, output: output * 2)
    numbers, _ = model_inputs(model, SNAKE, head="L1H2", tokenizer=minilm.tokenizer)
    assert "W_o" not in numbers.matrices
    assert "output" not in [stage.name for stage in work_out(numbers).stages]


def test_half_precision_is_allowed_its_rounding(minilm):
    model = random_model(transformers.AutoModel, PROJECTED["bert"]).to(torch.bfloat16)
    numbers, _ = model_inputs(model, SNAKE, head="L1H2", tokenizer=minilm.tokenizer)
    assert numbers.notes == ()
    assert "W_q" in numbers.matrices


def test_the_model_is_left_as_it_was(minilm):
    def hooks():
        return [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in minilm.model.modules()]

    model_inputs(
        minilm.model, SNAKE, head="L3H1", tokenizer=minilm.tokenizer
    )  # transformers adds hooks of its own, once
    before = hooks()
    model_inputs(minilm.model, SNAKE, head="L3H1", tokenizer=minilm.tokenizer)
    with pytest.raises(InputError):
        model_inputs(minilm.model, "", tokenizer=minilm.tokenizer)
    assert hooks() == before
    assert minilm.model.config._attn_implementation == "sdpa"


def test_without_a_head_the_most_telling_one_is_taken(minilm, snake):
    from regard.tracing.focus import focus_on

    focus = focus_on(snake, "it")
    numbers, query = model_inputs(minilm.model, SNAKE, token="it", tokenizer=minilm.tokenizer)
    assert numbers.title == f"MiniLM · {focus.head.name}"
    assert query == focus.query == 7


def test_a_head_that_is_not_there_is_refused(minilm):
    assert refusal(InputError, model_inputs, minilm.model, SNAKE, head="L9H1", tokenizer=minilm.tokenizer) == (
        "no head 'L9H1'; heads are named like L3H1 and run from L0H0 to L5H11; nearest: L5H1, L5H0, L5H2."
    )


def test_a_text_that_the_model_hardly_knows_is_remarked():
    numbers, _ = model_inputs(None, "뱀은 독이 있어서 위험하다", head="L3H1")
    assert numbers.notes[-1].startswith("MiniLM knows 0 of these 13 tokens")
