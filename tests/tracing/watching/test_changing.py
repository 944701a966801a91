"""Tests of models with changed heads, against the same models with other masks and parameters."""

import copy
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from random_models import gpt2, sharp, t5
from refusals import refusal
from torch import nn
from torch.testing import assert_close
from transformers import (
    AlbertConfig,
    AlbertModel,
    DynamicCache,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    StaticCache,
)

import regard
from regard import Cut, InputError, Sharpen, Silence
from regard.tracing.tokens.id_tokens import IdTokens

TEXT = "The snake is very dangerous because it has a venom"


@pytest.fixture(scope="module")
def inputs(minilm):
    return minilm.tokenizer(TEXT, return_tensors="pt")


def output(model, inputs, **arguments):
    with torch.no_grad():
        return model(**inputs | arguments).last_hidden_state


def test_an_unchanged_trace_has_the_models_own_output_bit_for_bit(minilm, inputs):
    assert torch.equal(regard.trace("MiniLM", TEXT).output, output(minilm.model, inputs))


@pytest.mark.parametrize("heads", [[1], range(12)])
@pytest.mark.parametrize("query", ["it", None])
def test_a_cut_is_the_models_own_mask(minilm, inputs, heads, query):
    mask = torch.ones(1, 12, 12, 12, dtype=torch.bool)
    mask[:, heads, slice(None) if query is None else 7, 2] = False
    names = None if len(heads) == 12 else [f"L{layer}H1" for layer in range(6)]
    trace = regard.trace("MiniLM", TEXT, changes=[Cut(query, "snake", names)])
    assert_close(trace.output, output(minilm.model, inputs, attention_mask=mask), rtol=1e-4, atol=1e-5)
    assert trace["L3H1"]["it", "snake"] == 0.0
    assert float(trace["L3H1"]["it"].sum()) == pytest.approx(1.0, abs=1e-6)
    assert trace.check().max_error < 1e-5


def test_a_silenced_head_is_one_whose_output_projection_is_zero(minilm, inputs):
    model = copy.deepcopy(minilm.model)
    with torch.no_grad():
        model.encoder.layer[3].attention.output.dense.weight[:, 32:64] = 0
    trace = regard.trace("MiniLM", TEXT, changes=[Silence("L3H1")])
    assert_close(trace.output, output(model, inputs), rtol=1e-4, atol=1e-5)


def test_a_sharpened_head_is_one_with_larger_queries(minilm, inputs):
    model = copy.deepcopy(minilm.model)
    with torch.no_grad():
        model.encoder.layer[3].attention.self.query.weight[32:64] *= 4
        model.encoder.layer[3].attention.self.query.bias[32:64] *= 4
    trace = regard.trace("MiniLM", TEXT, changes=[Sharpen("L3H1", 0.25)])
    assert_close(trace.output, output(model, inputs), rtol=1e-4, atol=1e-5)


def test_a_model_is_as_it_was_after_the_block(minilm, inputs):
    plain = output(minilm.model, inputs)

    def fail():
        with regard.changed(minilm.model, [Silence("L0")]):
            assert not torch.equal(output(minilm.model, inputs), plain)
            raise RuntimeError("stop")

    assert refusal(RuntimeError, fail) == "stop"
    assert torch.equal(output(minilm.model, inputs), plain)


def test_an_encoder_decoder_is_changed_in_the_kind_that_is_named():
    model = t5()
    ids, target = torch.randint(3, 61, (1, 7)), torch.randint(3, 61, (1, 5))

    def patterns(*changes):
        with regard.changed(model, changes), regard.watching(model) as watched, torch.no_grad():
            model(input_ids=ids, decoder_input_ids=target)
        return {step.path: step.attended.pattern.dense() for step in watched.steps}

    plain, cut = patterns(), patterns(Cut(2, 3, ["cross L1H4"]), Silence("encoder L0"), Cut(4, 1, ["decoder"]))
    zeros = {path: ((weights == 0) & (plain[path] > 0)).nonzero().tolist() for path, weights in cut.items()}
    everything = [[0, head, query, key] for head in range(6) for query in range(7) for key in range(7)]
    assert zeros == {
        "encoder.block.0.layer.0.SelfAttention": everything,
        "encoder.block.1.layer.0.SelfAttention": [],
        "decoder.block.0.layer.0.SelfAttention": [[0, head, 4, 1] for head in range(6)],
        "decoder.block.0.layer.1.EncDecAttention": [],
        "decoder.block.1.layer.0.SelfAttention": [[0, head, 4, 1] for head in range(6)],
        "decoder.block.1.layer.1.EncDecAttention": [[0, 4, 2, 3]],
    }


def test_generation_with_a_cache_is_changed_at_the_positions_of_the_whole_text():
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=61, n_positions=64, n_embd=24, n_layer=2, n_head=3)
    model = GPT2LMHeadModel(config).eval()
    ids = torch.randint(3, 61, (1, 5))
    with (
        regard.changed(model, [Cut(6, 1, ["L1H2"]), Cut(None, 3, ["L1H2"])]),
        regard.watching(model) as watched,
        torch.no_grad(),
    ):
        model.generate(ids, max_new_tokens=4, min_new_tokens=4, do_sample=False, pad_token_id=0)
    steps = [step.attended.pattern.dense() for step in watched.steps if step.layer == 1]
    assert [tuple(weights.shape[2:]) for weights in steps] == [(5, 5), (1, 6), (1, 7), (1, 8)]
    assert [(weights[0, 2, -1] == 0).nonzero().flatten().tolist() for weights in steps] == [[3], [3], [1, 3], [3]]


class Joined(nn.Module):
    """Attention whose tensors join batch and heads in one axis."""

    num_heads = 2

    def forward(self, x):
        return F.scaled_dot_product_attention(x, x, x)


@pytest.mark.parametrize("cache", [{}, {"cache_implementation": "static", "disable_compile": True}, {"num_beams": 3}])
@pytest.mark.parametrize("change", [Cut(None, 2), Cut(None, 6), Cut(9, 8), "interchange"])
@pytest.mark.parametrize("window", [4, 4096])
def test_generation_with_a_cache_of_other_keys_is_that_without_a_cache(window, change, cache):
    sizes = {"hidden_size": 24, "intermediate_size": 37, "num_hidden_layers": 2, "num_attention_heads": 4}
    model = sharp(
        MistralForCausalLM(MistralConfig(**sizes, vocab_size=97, num_key_value_heads=2, sliding_window=window))
    )
    ids = torch.arange(5, 12)[None]
    if change == "interchange":
        other = regard.trace(model, torch.arange(30, 45)[None])
        change = regard.Interchange("L0H1", other, tokens=[3, 8, 9])

    def generated(**options):
        with regard.changed(model, [change]):
            return model.generate(
                ids, max_new_tokens=5, output_logits=True, return_dict_in_generate=True, pad_token_id=0,
                eos_token_id=None, **options,
            )  # fmt: skip

    found, expected = generated(**cache), generated(**cache | {"use_cache": False, "cache_implementation": None})
    assert torch.equal(found.sequences, expected.sequences)
    for logits, expected_logits in zip(found.logits, expected.logits, strict=True):
        assert_close(logits, expected_logits, rtol=1e-4, atol=1e-4)


class WithCache(nn.Module):
    """A language model inside another module, which calls its cache by another name."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids, keys_so_far):
        return self.model(ids, past_key_values=keys_so_far)


@pytest.mark.parametrize("cache_class", [DynamicCache, partial(StaticCache, max_cache_len=16)])
@pytest.mark.parametrize("change", [Cut(None, 2), Cut(9, 8), Cut(3, 1)])
@pytest.mark.parametrize("call", ["wrapped", "positional"])
def test_a_cache_is_found_however_the_model_gets_it(call, change, cache_class):
    sizes = {"hidden_size": 24, "intermediate_size": 37, "num_hidden_layers": 2, "num_attention_heads": 4}
    model = sharp(MistralForCausalLM(MistralConfig(**sizes, vocab_size=97, num_key_value_heads=2, sliding_window=4)))
    ids, cache = torch.arange(5, 16)[None], cache_class(config=model.config)
    with regard.changed(model, [change]), torch.no_grad():
        expected = model(ids).logits
    wrapped = WithCache(model)
    with regard.changed(wrapped if call == "wrapped" else model, [change]), torch.no_grad():
        steps = [
            (wrapped(part, cache) if call == "wrapped" else model(part, None, None, cache)).logits
            for part in ids.split([4, *[1] * 7], dim=1)
        ]
    assert_close(torch.cat(steps, dim=1), expected, rtol=1e-4, atol=1e-4)


def test_batch_and_heads_in_one_axis_keep_their_shape():
    model, x = Joined(), torch.randn(6, 5, 7)
    with regard.changed(model, [Silence("L0H1")]):
        seen = model(x)
    assert seen.shape == x.shape
    assert [bool(item.any()) for item in seen] == [True, False] * 3


@pytest.mark.parametrize("grad", [True, False])
def test_torchs_own_encoder_layers_are_changed(grad):
    layer = nn.TransformerEncoderLayer(12, 3, 17, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x, hidden = torch.randn(2, 5, 12), torch.zeros(5, 5).bool()
    hidden[4, 1] = True
    without_head = copy.deepcopy(model)
    with torch.no_grad():
        without_head.layers[1].self_attn.out_proj.weight[:, 4:8] = 0  # head 1 has the columns 4 to 7
    with torch.set_grad_enabled(grad):
        with regard.changed(model, [Silence("L1H1")]):
            silenced = model(x)
        with regard.changed(model, [Cut(4, 1)]):
            cut = model(x)
        assert_close(silenced, without_head(x))
        assert_close(cut, model(x, mask=hidden))
        assert not torch.allclose(silenced, model(x), atol=1e-3)
        assert not torch.allclose(cut, model(x), atol=1e-3)


class Dropping(nn.Module):
    """Attention that gets its dropout by position, as `F.scaled_dot_product_attention` also accepts it."""

    def forward(self, x):
        return F.scaled_dot_product_attention(x, x, torch.ones_like(x), None, 0.5)


def test_the_dropout_of_a_changed_call_stays():
    model, x = Dropping(), torch.randn(1, 2, 5, 7)
    with regard.changed(model, [Silence("L0H1")]):
        sums = model(x)[0, 0, :, 0]
    assert (sums - 1).abs().max() > 0.1  # weights without dropout sum to 1


@pytest.fixture
def grouped() -> LlamaForCausalLM:
    """Return a random Llama of 2 layers with 6 query heads and 2 key heads."""
    sizes = {"hidden_size": 48, "intermediate_size": 32, "num_hidden_layers": 2, "vocab_size": 31}
    heads = {"num_attention_heads": 6, "num_key_value_heads": 2}
    return sharp(LlamaForCausalLM(LlamaConfig(**sizes, **heads, eos_token_id=None)))


PADDED = {
    "input_ids": torch.tensor([[0, 0, 5, 7, 11], [3, 13, 17, 19, 23]]),
    "attention_mask": torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]]),
}
"""Two texts, the first padded on the left: with a mask, transformers packs the query heads that share a key head."""


def test_heads_that_share_a_key_head_are_seen_one_by_one_while_a_model_writes(grouped):
    options = {"max_new_tokens": 3, "do_sample": False, "pad_token_id": 0}
    with regard.watching(grouped) as watched:
        written = grouped.generate(**PADDED, **options)
    grouped.set_attn_implementation("eager")
    eager = grouped.generate(**PADDED, **options, output_attentions=True, return_dict_in_generate=True)
    assert torch.equal(written, eager.sequences)
    expected = [weights for step in eager.attentions for weights in step]
    assert len(watched.steps) == len(expected) == 6
    for step, weights in zip(watched.steps, expected, strict=True):
        found = step.attended.pattern.dense()
        assert found.shape == weights.shape
        real = PADDED["attention_mask"].bool()[:, -weights.shape[2] :]  # a padding token sees nothing, or itself
        rows = real[:, None, :, None] if weights.shape[2] > 1 else torch.ones(1, 1, 1, 1, dtype=torch.bool)
        assert_close(found * rows, weights * rows, atol=1e-5, rtol=1e-4)


def test_a_silenced_head_of_a_group_is_the_one_that_is_named(grouped):
    token = {"input_ids": torch.tensor([[29], [2]]), "attention_mask": F.pad(PADDED["attention_mask"], (0, 1), value=1)}
    with torch.no_grad():
        cache = grouped(**PADDED).past_key_values
        with regard.changed(grouped, [Silence("L0H1")]):
            found = grouped(**token, past_key_values=copy.deepcopy(cache)).logits
        grouped.model.layers[0].self_attn.o_proj.weight[:, 8:16] = 0.0
        expected = grouped(**token, past_key_values=cache).logits
    assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_positions_count_padding_on_the_left(grouped):
    with regard.changed(grouped, [Cut(4, 3)]), torch.no_grad():
        found = grouped(**PADDED).logits
    for row, cut in ((slice(2, 5), Cut(2, 1)), (slice(5), Cut(4, 3))):
        text = PADDED["input_ids"][int(row.start is None), row][None]
        with regard.changed(grouped, [cut]), torch.no_grad():
            expected = grouped(text).logits
        assert_close(found[int(row.start is None), row][None], expected, atol=1e-5, rtol=1e-4)
        with torch.no_grad():
            assert (grouped(text).logits - expected).abs().max() > 1e-2


def test_what_cannot_be_changed_is_refused(minilm, inputs, without_type_checks):
    def run(*changes, model=minilm.model):
        with regard.changed(model, changes):
            output(model, inputs)

    layers = "the model has attention in encoder layers 0, 1, 2, 3, 4, 5."
    assert refusal(InputError, run, Silence("L6H0")) == f"Silence(head='L6H0') changed nothing: {layers}"
    assert refusal(InputError, run, Cut("it", 2)) == (
        "Cut(query='it', key=2, heads=None) names a token by its text, and regard.changed has no text to find it in; "
        "give the token's position."
    )
    message = "'L3H1' is not a change; give Cut, Silence, Sharpen or Interchange objects."
    assert refusal(TypeError, run, "L3H1") == message
    cut = Cut(0, 1)
    for use in (regard.changed(minilm.model, cut).__enter__, lambda: regard.trace("MiniLM", "a", changes=cut)):
        assert refusal(TypeError, use) == f"changes is {cut!r}; it takes a list: changes=[{cut!r}]."
    assert refusal(TypeError, regard.changed("bert", []).__enter__) == "changed takes a torch.nn.Module; got a str."
    eager = copy.deepcopy(minilm.model)
    eager.set_attn_implementation("eager")
    assert refusal(InputError, run, Silence("L3H1"), model=eager) == (
        "Silence(head='L3H1') changed nothing: no call of F.scaled_dot_product_attention or attend was seen; run the "
        "model inside the block. If it ran there, let its attention call one of these functions: in a model of "
        "transformers by regard.install(model) or attn_implementation='sdpa', in nn.MultiheadAttention by "
        "need_weights=False. Attention of other calls, as in GPT-J, BLOOM and DeBERTa, cannot be changed."
    )


def test_changes_that_a_backward_pass_would_not_compute_again_are_refused():
    model, ids = gpt2(), torch.arange(5, 12)[None]
    model.activation_checkpointing_enable()
    with torch.no_grad(), regard.changed(model, [Silence("L1H2")]):
        expected = model(ids).logits
    with regard.changed(model, [Silence("L1H2")]):  # in evaluation mode, no layer is computed again
        assert_close(model(ids).logits, expected)
    model.train()

    def run():
        with regard.changed(model, [Silence("L1H2")]):
            model(ids)

    assert refusal(InputError, run) == (
        "GPT2LMHeadModel uses gradient checkpointing: the backward pass would compute every layer again without the "
        "changes, and its gradients would be wrong; switch gradient checkpointing off, call model.eval(), or run the "
        "model in torch.no_grad()."
    )


@pytest.mark.parametrize("cut", [Cut(100, 0), Cut(2, 50), Cut(None, 50)])
def test_a_cut_outside_the_text_is_no_change(minilm, inputs, cut):
    def run():
        with regard.changed(minilm.model, [cut]):
            output(minilm.model, inputs)

    assert refusal(InputError, run) == f"{cut} changed nothing: no attention call let this query attend to this key."


def test_a_cut_of_an_edge_that_the_mask_forbids_is_no_change(grouped):
    text, cut = [3, 5, 3, 7, 5], Cut(1, 3)
    assert refusal(InputError, regard.trace, grouped, text, changes=[cut], tokenizer=IdTokens()) == (
        f"{cut} changed nothing: no attention call let this query attend to this key."
    )
    assert regard.trace(grouped, text, changes=[Cut(3, 1)], tokenizer=IdTokens())["L0H0"][3, 1] == 0


def test_a_negative_position_is_refused(minilm):
    assert refusal(InputError, regard.changed(minilm.model, [Cut(-1, 0)]).__enter__) == (
        "Cut(query=-1, key=0, heads=None) has a negative position; positions are counted from 0."
    )


@pytest.mark.parametrize("change", [Silence("L1H1"), Cut(2, 1), Sharpen("L0", 0.5)])
def test_heads_without_a_kind_are_refused_where_there_are_several(change):
    assert refusal(InputError, regard.changed(t5(), [change]).__enter__) == (
        f"{change} must name the kind of its heads, since the model has several: 'encoder L0H1', 'decoder L0H1', "
        "'cross L0H1', or 'cross' alone for all heads of cross-attention."
    )


def test_layers_that_share_a_module_are_refused():
    sizes = {"vocab_size": 61, "embedding_size": 12, "hidden_size": 24, "intermediate_size": 37}
    model = AlbertModel(AlbertConfig(**sizes, num_attention_heads=2)).eval()

    def run():
        with regard.changed(model, [Silence("L0H1")]):
            model(torch.randint(3, 61, (1, 5)))

    assert refusal(InputError, run) == (
        "Silence(head='L0H1') is ambiguous: encoder.albert_layer_groups.0.albert_layers.0.attention is not the only "
        "attention in encoder layer 0 of a forward pass, so a change to that layer would change several "
        "attention calls. If a module calls its model several times, give changed the inner model."
    )


def test_a_cut_in_a_trace_names_tokens_and_heads_of_one_kind(minilm):
    for heads, message in (
        (["L3H1"], "no token 'dog' in the text; nearest: [CLS], The, snake."),
        (
            ["L3X1"],
            "no heads 'L3X1': heads are named like 'L3H1' or 'cross L3H1', a layer 'L3', and a kind 'cross'.",
        ),
    ):
        assert refusal(InputError, regard.trace, "MiniLM", TEXT, changes=[Cut("it", "dog", heads)]) == message


def test_a_saved_trace_keeps_output_and_changes(tmp_path):
    trace = regard.trace("MiniLM", TEXT, changes=[Cut("it", "snake", ["L3H1"]), Sharpen("L2", 0.5)])
    loaded = regard.Trace.load(trace.save(tmp_path / "cut.safetensors"))
    assert loaded.changes == trace.changes
    assert torch.equal(loaded.output, trace.output)
    assert repr(loaded) == repr(trace)
    assert torch.equal(loaded["L3H1"]["it"], trace["L3H1"]["it"])
