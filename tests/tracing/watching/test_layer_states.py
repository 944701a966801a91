"""Tests of the hidden vectors in a model's layers and of their parts, against hooks and the model's own modules."""

import copy

import pytest
import torch
import torch.nn.functional as F
from random_models import sharp, t5
from refusals import refusal
from torch.testing import assert_close
from transformers import (
    AlbertConfig,
    AlbertModel,
    DeepseekV3Config,
    DeepseekV3Model,
    GPT2Config,
    GPT2Model,
    GptOssConfig,
    GptOssModel,
    LlamaConfig,
    LlamaModel,
    MixtralConfig,
    MixtralModel,
    Qwen2MoeConfig,
    Qwen2MoeModel,
)

import regard
from regard import InputError
from regard.tracing.watching.layer_states import recording_states

TEXT = "The snake is very dangerous because it has a venom."
VOCABULARY = 30522
MODELS = {
    "gpt2": lambda: GPT2Model(GPT2Config(vocab_size=VOCABULARY, n_positions=64, n_embd=24, n_layer=3, n_head=4)),
    "llama with grouped keys": lambda: LlamaModel(
        LlamaConfig(
            vocab_size=VOCABULARY, hidden_size=24, intermediate_size=37, num_hidden_layers=3, num_attention_heads=4,
            num_key_value_heads=2,
        )
    ),
}  # fmt: skip
SIZES = {
    "vocab_size": VOCABULARY, "hidden_size": 24, "intermediate_size": 44, "moe_intermediate_size": 20,
    "num_hidden_layers": 3, "num_attention_heads": 4, "num_experts_per_tok": 2,
}  # fmt: skip
LATENT = {"q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 3, "v_head_dim": 5}
MIXTURES = {
    "mixtral": lambda: MixtralModel(MixtralConfig(**SIZES, num_key_value_heads=2, num_local_experts=5)),
    "gpt-oss, with router scores": lambda: GptOssModel(
        GptOssConfig(**SIZES, num_key_value_heads=2, num_local_experts=5, head_dim=6)
    ),
    "qwen2 with a shared expert": lambda: Qwen2MoeModel(
        Qwen2MoeConfig(**SIZES, num_key_value_heads=2, num_experts=5, shared_expert_intermediate_size=28)
    ),
    "deepseek with a dense layer and shared experts": lambda: DeepseekV3Model(
        DeepseekV3Config(
            **SIZES, **LATENT, num_key_value_heads=4, n_routed_experts=5, n_group=1, topk_group=1,
            first_k_dense_replace=1,
        )
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def trace(minilm):
    return regard.trace("MiniLM", TEXT, keep=("hidden",))


def traced(minilm, make, **arguments):
    model = sharp(make())
    return model, regard.trace(model, TEXT, tokenizer=minilm.tokenizer, keep=("hidden",), **arguments)


def test_contributions_are_weight_times_value_times_projection(trace, minilm):
    head = trace["L3H1"]
    own = copy.deepcopy(minilm.model.encoder.layer[3].attention)
    found = head.contributions("it")
    own.double()
    values = own.self.value(trace.states["encoder"][3].before.double())
    vectors = head["it"].double()[:, None] * values[:, 32:64] @ own.output.dense.weight[:, 32:64].T
    assert_close(found.vectors.double(), vectors.detach(), rtol=1e-4, atol=1e-5)
    assert_close(found.lengths.double(), vectors.detach().norm(dim=-1), rtol=1e-4, atol=1e-5)
    of_layer = trace.contributions("it", 3)
    assert of_layer.vectors.shape == (12, 13, 384)
    assert torch.equal(of_layer.vectors[1], found.vectors)
    assert trace.tokens[int(found.lengths.argmax())].text == "snake"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", MODELS)
def test_vectors_of_a_model_in_a_small_type_are_in_float32(minilm, name, dtype):
    model = sharp(MODELS[name]())
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:  # biases are 0 in a new model
                parameter.add_(torch.randn(parameter.shape))
    trace = regard.trace(model.to(dtype), TEXT, tokenizer=minilm.tokenizer, keep=("hidden",))
    moved, position = trace.movement("venom"), [token.text for token in trace.tokens].index("venom")
    for layer, pattern in trace.decoder.items():
        state, found = trace.states["decoder"][layer], trace.contributions("venom", layer)
        values = pattern.value[0].repeat_interleave(4 // pattern.value.shape[1], dim=0).double()
        expected = pattern[0, :, position].double()[:, :, None] * (values @ state.projection.weight.double())
        assert_close(found.vectors, expected.float(), rtol=1e-5, atol=1e-5)
        assert_close(moved.by_head[layer], expected.sum(dim=1).float(), rtol=1e-5, atol=1e-5)
        rest = state.after.double() - state.before.double() - state.attention.double() - state.feed_forward.double()
        assert_close(moved.rest[layer], rest[position].float(), rtol=1e-5, atol=1e-5)
    assert_close(trace.rollout("venom").sum().item(), 1.0, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_vectors_of_an_offloaded_model_are_kept(minilm, name):
    from accelerate import cpu_offload

    model, expected = traced(minilm, MODELS[name])
    cpu_offload(model, execution_device="cpu")
    found = regard.trace(model, TEXT, tokenizer=minilm.tokenizer, keep=("hidden",))
    assert all(parameter.is_meta for parameter in model.parameters())
    assert torch.equal(found.output, expected.output)
    assert_close(found.movement("venom").by_head, expected.movement("venom").by_head)
    assert_close(found.movement("venom").bias, expected.movement("venom").bias)


def test_movement_of_a_model_with_norms_after_the_additions(trace, minilm):
    states = {}
    hooks = [
        module.register_forward_hook(lambda module, args, output, name=name: states.update({name: output}))
        for name, module in minilm.model.named_modules()
    ]
    ids = minilm.tokenizer(TEXT, return_tensors="pt")
    with torch.no_grad():
        hidden = minilm.model(**ids, output_hidden_states=True).hidden_states
    for hook in hooks:
        hook.remove()
    moved = trace.movement("it")
    assert moved.layers == (0, 1, 2, 3, 4, 5)
    assert_close(moved.before, torch.stack([h[0, 7] for h in hidden[:-1]]))
    assert_close(moved.after, torch.stack([h[0, 7] for h in hidden[1:]]))
    for row in range(6):
        assert_close(moved.attention[row], states[f"encoder.layer.{row}.attention.output.dense"][0, 7])
        assert_close(moved.feed_forward[row], states[f"encoder.layer.{row}.output.dense"][0, 7])
    assert_close(moved.before + moved.attention + moved.feed_forward + moved.rest, moved.after, rtol=0, atol=1e-4)
    biases = torch.stack([layer.attention.output.dense.bias for layer in minilm.model.encoder.layer]).detach()
    assert_close(moved.by_head.sum(dim=1) + biases, moved.attention, rtol=0, atol=1e-4)
    assert_close(moved.bias, biases, rtol=0, atol=1e-4)
    assert_close(moved.by_source.sum(dim=1) + biases, moved.attention, rtol=0, atol=1e-4)
    assert moved.rest.norm(dim=-1).min() > 1


@pytest.mark.parametrize("name", MODELS)
def test_nothing_is_left_over_where_the_parts_are_only_added(minilm, name):
    _, trace = traced(minilm, MODELS[name])
    moved = trace.movement("venom")
    assert_close(moved.rest, torch.zeros_like(moved.rest), rtol=0, atol=1e-4)
    assert float(moved.attention.norm(dim=-1).min()) > 1
    assert float(moved.feed_forward.norm(dim=-1).min()) > 0.1
    bias = [state.projection.bias for state in trace.states["decoder"].values()]
    biases = torch.zeros_like(moved.attention) if bias[0] is None else torch.stack(bias)
    assert_close(moved.by_head.sum(dim=1) + biases, moved.attention, rtol=1e-4, atol=1e-4)
    assert not moved.by_source[:, -1].any()  # the token after it


@pytest.mark.parametrize("name", MIXTURES)
def test_a_mixture_of_experts_is_one_part(minilm, name):
    model, trace = traced(minilm, MIXTURES[name])
    outputs = []
    hooks = [layer.mlp.register_forward_hook(lambda *call: outputs.append(call[-1])) for layer in model.layers]
    with torch.no_grad():
        model(input_ids=minilm.tokenizer(TEXT, return_tensors="pt").input_ids)
    for hook in hooks:
        hook.remove()
    moved = trace.movement("venom")
    feed_forward = torch.stack([(out[0] if isinstance(out, tuple) else out).view(13, 24)[10] for out in outputs])
    assert_close(moved.feed_forward, feed_forward, rtol=1e-4, atol=1e-4)
    assert_close(moved.rest, torch.zeros_like(moved.rest), rtol=0, atol=1e-4)
    assert float(moved.feed_forward.norm(dim=-1).min()) > 0.1


def test_an_encoder_decoder_moves_in_each_kind(minilm):
    _, trace = traced(minilm, t5, target="Die Schlange")
    moved = trace.movement("snake", "encoder")
    assert_close(moved.rest, torch.zeros_like(moved.rest), rtol=0, atol=1e-3)
    decoder = trace.movement(2, "decoder")
    cross = trace.contributions(2, 1, "cross")
    assert_close(decoder.rest[1], cross.vectors.sum(dim=(0, 1)), rtol=1e-3, atol=1e-3)


def test_a_rollout_is_a_row_of_the_product_of_all_layers(trace):
    product = torch.eye(13).double()
    for pattern in trace.encoder.values():
        product = (pattern.dense()[0].double().mean(dim=0) + torch.eye(13)) / 2 @ product
    for token, row in (("it", 7), ("venom", 10)):
        shares = trace.rollout(token)
        assert_close(shares.double(), product[row], rtol=1e-5, atol=1e-7)
        assert float(shares.sum()) == pytest.approx(1.0, abs=1e-6)


def test_a_rollout_by_lengths_takes_the_vectors_that_tokens_add(trace, minilm):
    model = copy.deepcopy(minilm.model).double()
    model.set_attn_implementation("eager")
    with torch.no_grad():
        ids = minilm.tokenizer(TEXT, return_tensors="pt")
        seen = model(**ids, output_attentions=True, output_hidden_states=True)
        product = torch.eye(13).double()
        for layer, weights, hidden in zip(model.encoder.layer, seen.attentions, seen.hidden_states, strict=False):
            values = layer.attention.self.value(hidden)[0]
            flow = torch.zeros(13, 13).double()
            for query in range(13):
                for key in range(13):
                    heads = values[key].view(12, 32) * weights[0, :, query, key, None]
                    added = heads.flatten() @ layer.attention.output.dense.weight.T
                    flow[query, key] = (added + hidden[0, key] * (query == key)).norm()
            product = flow / flow.sum(dim=1, keepdim=True) @ product
    for token, row in (("it", 7), ("venom", 10)):
        shares = trace.rollout(token, flow=regard.VectorLengths())
        assert_close(shares.double(), product[row], rtol=1e-4, atol=1e-5)
    assert_close(trace.rollout("it", flow=regard.HeadMean()), trace.rollout("it"))


def test_what_was_not_kept_is_refused(trace, snake):
    for what, call in (
        ("movement", lambda: snake.movement("it")),
        ("a rollout by VectorLengths", lambda: snake.rollout("it", flow=regard.VectorLengths())),
        ("contributions", lambda: snake["L3H1"].contributions("it")),
        ("contributions", lambda: snake.contributions("it", 3)),
    ):
        assert refusal(InputError, call) == (
            f"{what} needs the vectors of the layers, which this trace does not have; make the trace with "
            "keep=('hidden',), and do not join its words."
        )
    assert refusal(InputError, trace.movement, "it", kind="decoder") == (
        "no attention of kind 'decoder'; this trace has encoder."
    )
    assert refusal(InputError, regard.trace, "MiniLM", TEXT, keep=("values",)) == (
        "keep=('values',): besides patterns, a trace can only keep=('hidden',)."
    )


class ScaledLinear(torch.nn.Module):
    """A module whose linear layer gets twice the contexts."""

    def __init__(self, dense):
        super().__init__()
        self.dense = dense

    def forward(self, x):
        return self.dense(2 * x)


class DoubledLinear(torch.nn.Linear):
    """A linear layer whose output is twice that of its parameters."""

    def forward(self, x):
        return 2 * super().forward(x)


class AdaptedLinear(torch.nn.Module):
    """A linear layer with an adapter of low rank, with the names of peft."""

    def __init__(self, linear):
        super().__init__()
        self.base_layer = linear
        self.lora_A, self.lora_B = torch.nn.Linear(linear.in_features, 5), torch.nn.Linear(5, linear.out_features)

    def forward(self, x):
        return self.base_layer(x) + self.lora_B(self.lora_A(x))


def test_the_output_of_an_adapter_is_a_part_of_its_layer(minilm):
    def make():
        model = MODELS["llama with grouped keys"]()
        for layer in model.layers:
            layer.mlp.down_proj = AdaptedLinear(layer.mlp.down_proj)
            layer.self_attn.v_proj = AdaptedLinear(layer.self_attn.v_proj)
        return model

    _, trace = traced(minilm, make)
    moved = trace.movement("venom")
    assert_close(moved.rest, torch.zeros_like(moved.rest), rtol=0, atol=1e-4)
    assert_close(moved.by_head.sum(dim=1), moved.attention, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            lambda layer: setattr(layer.attention.output, "dense", AdaptedLinear(layer.attention.output.dense)),
            "its output projection is more than a linear layer (merge an adapter such as LoRA first)",
        ),
        (
            lambda layer: setattr(layer.attention.output, "dense", ScaledLinear(layer.attention.output.dense)),
            "no linear layer takes the contexts of its heads, side by side",
        ),
        (
            lambda layer: setattr(layer.attention.output.dense, "__class__", DoubledLinear),
            "its output projection is more than a linear layer (merge an adapter such as LoRA first)",
        ),
        (
            lambda layer: setattr(layer, "feed_forward_chunk", lambda hidden: hidden.tanh()),
            "no feed-forward part, or no input and output of one shape, were found in its layer",
        ),
        (
            lambda layer: setattr(layer, "experts", torch.nn.Identity()),
            "its feed-forward part is more than a mixture of experts",
        ),
    ],
)
def test_layers_that_cannot_be_taken_apart_are_refused(minilm, change, reason):
    model = copy.deepcopy(minilm.model)
    change(model.encoder.layer[2])
    assert refusal(InputError, regard.trace, model, TEXT, tokenizer=minilm.tokenizer, keep=("hidden",)) == (
        f"the vectors of the layer of encoder.layer.2.attention.self cannot be kept: {reason}; trace without keep=…."
    )


class OverwritingAttention(torch.nn.Module):
    """Attention whose context is overwritten after the output projection has read it."""

    def __init__(self):
        super().__init__()
        self.projection = torch.nn.Linear(8, 8)

    def forward(self, x):
        context = F.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None])[:, 0]
        output = self.projection(context)
        context.zero_()
        return output


class OverwritingLayer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.feed_forward = OverwritingAttention(), torch.nn.Linear(8, 8)

    def forward(self, x):
        x = x + self.attention(x)
        return x + self.feed_forward(x)


def test_a_context_that_is_overwritten_after_the_projection_keeps_its_vectors(normal):
    model, x = torch.nn.Sequential(OverwritingLayer()), normal(1, 5, 8).float()
    with torch.no_grad(), regard.watching(model) as watched, recording_states(model, watched) as recorder:
        model(x)
    (step,) = watched.steps
    context = (x @ x.mT / 8**0.5).softmax(dim=-1) @ x
    attention = model[0].attention.projection(context)[0]
    assert_close(recorder.states_of(step).attention, attention.detach())


def test_layers_that_share_their_module_have_their_own_vectors(minilm):
    sizes = {"vocab_size": VOCABULARY, "embedding_size": 12, "hidden_size": 24, "intermediate_size": 37}
    config = AlbertConfig(**sizes, num_attention_heads=2, num_hidden_layers=3)
    model, trace = traced(minilm, lambda: AlbertModel(config))
    with torch.no_grad():
        hidden = model(**minilm.tokenizer(TEXT, return_tensors="pt"), output_hidden_states=True).hidden_states
    moved = trace.movement("it")
    assert_close(moved.before, torch.stack([h[0, 7] for h in hidden[:-1]]))
    assert_close(moved.after, torch.stack([h[0, 7] for h in hidden[1:]]))


def test_a_saved_trace_keeps_its_vectors(trace, tmp_path):
    loaded = regard.Trace.load(trace.save(tmp_path / "hidden.safetensors"))
    for name in ("before", "attention", "by_head", "by_source", "feed_forward", "rest", "after"):
        # The vectors are saved bit by bit; the products of them are rounded as the tensors lie in memory.
        assert_close(getattr(loaded.movement("it"), name), getattr(trace.movement("it"), name))
