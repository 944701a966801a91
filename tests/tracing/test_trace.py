"""Traces: the known numbers, the kernel's own contexts, every refusal's text."""

import base64
import copy
import gc
import html
import math
import os
import re
import threading
import time
import weakref
from dataclasses import replace
from functools import partial

import pytest
import torch
import transformers
from random_models import assert_weights, eager_outputs, gpt2
from refusals import refusal
from torch.testing import assert_close

import regard
from regard import InputError

SNAKE = "The snake is very dangerous because it has a venom."
ANIMAL = "The animal didn't cross the street because it was too tired."


def test_it_looks_at_the_animal(snake, minilm):
    animal = regard.trace(minilm.model, ANIMAL, tokenizer=minilm.tokenizer)
    found = snake["L3H1"]["it", "snake"], animal["L3H1"]["it", "animal"]
    assert found == pytest.approx((0.674, 0.677), abs=5e-4)


def test_every_weight_equals_eagers(snake, minilm):
    weights = eager_outputs(minilm.model, minilm.tokenizer(SNAKE, return_tensors="pt")).attentions
    assert_weights(snake.encoder, weights, atol=2e-6, rtol=1e-4)


def test_check_holds_the_weights_against_the_kernels_contexts(snake):
    check = snake.check()
    assert check.backends == ("sdpa",)
    assert 0 < check.max_error < 1e-5 * check.magnitude


@pytest.mark.parametrize("layer", [0, 1, 5])
def test_check_finds_a_pattern_that_is_not_the_kernels_and_hides_no_nan(snake, layer):
    steps = snake.attended["encoder"]
    for change, error in ((0.01, pytest.approx(0.01, rel=0.01)), (math.nan, pytest.approx(math.nan, nan_ok=True))):
        other = replace(steps[layer], context=steps[layer].context + change)
        check = replace(snake, attended={"encoder": steps | {layer: other}}).check()
        assert check.max_error == error
        assert math.isnan(check.magnitude) == math.isnan(change)


def test_the_model_is_left_as_it_was(minilm):
    minilm.model.train()
    minilm.model.pooler.eval()  # as one does with a part that is frozen
    regard.trace(minilm.model, SNAKE, tokenizer=minilm.tokenizer)
    assert minilm.model.training
    assert not minilm.model.pooler.training
    assert minilm.model.config._attn_implementation == "sdpa"
    minilm.model.eval()


@pytest.fixture
def refused(minilm):
    """A function that returns why `regard.trace` refuses a model and a text, with MiniLM's tokenizer."""
    return partial(refusal, InputError, regard.trace, tokenizer=minilm.tokenizer)


def test_the_model_is_left_as_it_was_when_the_forward_fails(minilm, monkeypatch, refused):
    monkeypatch.setattr(minilm.model.encoder, "forward", lambda *args, **kwargs: 1 / 0)
    assert refused(minilm.model, SNAKE) == "BertModel could not read its input: ZeroDivisionError division by zero."
    assert minilm.model.config._attn_implementation == "sdpa"


def test_the_default_model_is_known_by_name(snake):
    by_name = regard.trace("MiniLM", SNAKE)
    assert by_name.model == snake.model == "MiniLM"
    assert torch.equal(by_name.encoder[5].dense(), snake.encoder[5].dense())


def test_the_repr_of_a_trace_and_of_a_head(snake):
    assert repr(snake) == (
        "Trace('The snake is very dangerous because it has a venom.', model='MiniLM', tokens=13, encoder=6x12)"
    )
    assert repr(snake["L3H1"]) == "Head(L3H1, encoder, queries=13, keys=13)"
    assert repr(replace(snake, text="")) == "Trace(model='MiniLM', tokens=13, encoder=6x12)"  # as of a picture
    long = repr(replace(snake, text="snake " * 1000))
    assert long == f"Trace('{'snake ' * 33}sn…', model='MiniLM', tokens=13, encoder=6x12)"


def test_a_decoder_sees_only_what_came_before(minilm):
    trace = regard.trace(gpt2(), SNAKE, tokenizer=minilm.tokenizer)
    assert trace.kinds == ("decoder",)
    assert len(trace.tokens) == 13
    assert trace.decoder[1].dense().triu(1).abs().max() == 0
    assert trace.check().max_error < 1e-5


def marian(**given):
    """A random translator with MiniLM's vocabulary."""
    torch.manual_seed(0)
    sizes = {"d_model": 24, "encoder_layers": 2, "decoder_layers": 3, "encoder_ffn_dim": 7, "decoder_ffn_dim": 7}
    heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 6}
    config = transformers.MarianConfig(
        vocab_size=30_522, **sizes, **heads, **given, decoder_start_token_id=101, pad_token_id=0,
        max_position_embeddings=64,
    )  # fmt: skip
    return transformers.MarianMTModel(config)


def test_a_translator_has_three_kinds(minilm):
    model, source, target = marian().eval(), "the snake", "it has a venom"
    trace = regard.trace(model, source, target=target, tokenizer=minilm.tokenizer)
    ids, target_ids = (minilm.tokenizer(text, return_tensors="pt").input_ids for text in (source, target))
    shifted = torch.nn.functional.pad(target_ids[:, :-1], (1, 0), value=101)
    assert_close(trace.output, model(input_ids=ids, decoder_input_ids=shifted).logits.detach())
    assert trace.kinds == ("encoder", "decoder", "cross")
    assert [token.text for token in trace.source] == ["[CLS]", "the", "snake", "[SEP]"]
    assert [token.text for token in trace.target] == ["[CLS]", "[CLS]", "it", "has", "a", "venom"]
    assert trace.cross[2].shape == (1, 6, 6, 4)
    head = trace["cross L2H5"]
    assert head["venom", "snake"] == float(trace.cross[2][0, 5, 5, 2])
    assert trace.check().max_error < 1e-5


def test_two_texts_for_one_and_one_text_for_two_are_refused(minilm, refused):
    for model, target, message in (
        (minilm.model, "le serpent", "BertModel reads one text, so it takes no target."),
        (
            marian(),
            None,
            "MarianMTModel also reads a target; give it with target=…, or in regard.trace and regard look let the "
            "model write it with new_tokens=….",
        ),
    ):
        assert refused(model, "the snake", target=target) == message


CONVERT = "convert it first, for instance with iconv -f LATIN1 -t UTF-8."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the text is empty; give at least one word to look at."),
        ("  \n", "the text is empty; give at least one word to look at."),
        (os.fsdecode(b"un caf\xe9"), f"the text is not UTF-8 (byte 0xE9 at position 7); {CONVERT}"),
        ("뱀\udc80", f"the text is not UTF-8 (byte 0x80 at position 4); {CONVERT}"),
        ("뱀\ud834", "the text has a lone surrogate (U+D834 at position 2), which UTF-8 cannot encode; remove it."),
    ],
)
def test_a_text_that_is_blank_or_that_utf_8_cannot_write_is_refused(minilm, refused, text, message):
    assert refused(minilm.model, text) == message


def test_what_is_no_model_no_text_and_no_tokenizer_is_refused(minilm, without_type_checks):
    one_text = "give one text, a str, or trace several one by one: [regard.trace(model, text) for text in texts]."
    for model, text, tokenizer, message in (
        (None, SNAKE, None, "trace takes a Hugging Face PreTrainedModel, or the name or folder of one; got None."),
        (
            minilm.model, SNAKE, "x",
            "tokenizer is a str; it takes what AutoTokenizer.from_pretrained gives, or None for the model's own.",
        ),
        (minilm.model, 5, minilm.tokenizer, f"the text is an int; {one_text}"),
        (minilm.model, ["a", "b"], minilm.tokenizer, f"the text is a list; {one_text}"),
    ):  # fmt: skip
        assert refusal(TypeError, regard.trace, model, text, tokenizer=tokenizer) == message


def test_a_model_that_is_not_from_hugging_face_is_refused(without_type_checks):
    own = torch.nn.Linear(2, 2)
    own.config = {"n_layers": 2}  # as modules of nanoGPT have one
    for model in (torch.nn.Linear(2, 2), own):
        for read in ({"text": SNAKE}, {"images": torch.zeros(3, 8, 8)}):
            assert refusal(TypeError, regard.trace, model, **read) == (
                "trace takes a Hugging Face PreTrainedModel, or the name or folder of one; got a Linear. "
                "regard.watching(model) records the attention of any PyTorch model."
            )


SIZES = {"hidden_size": 24, "intermediate_size": 7, "num_hidden_layers": 1, "num_attention_heads": 3}


def test_a_model_that_reads_no_text_is_refused(minilm):
    whisper = transformers.WhisperConfig(
        vocab_size=97, d_model=24, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=7, decoder_ffn_dim=7,
        encoder_attention_heads=3, decoder_attention_heads=3, pad_token_id=0, eos_token_id=2,
        bos_token_id=1, decoder_start_token_id=1,
    )  # fmt: skip
    vit = transformers.ViTConfig(**SIZES, image_size=32, patch_size=8)
    for model, medium, option in (
        (transformers.ViTModel(vit), "picture: regard.trace(model, images=[picture])", "image"),
        (transformers.WhisperModel(whisper), "recording: regard.trace(model, audio=wave)", "audio"),
    ):
        for options in ({}, {"target": "a snake"}, {"tokenizer": minilm.tokenizer}):
            assert refusal(InputError, regard.trace, model, SNAKE, **options) == (
                f"{type(model).__name__} reads no text; give it a {medium}, or regard look --{option} FILE."
            )


def test_a_tokenizer_of_another_vocabulary_is_refused(minilm, refused):
    """A tokenizer with a larger vocabulary than the model; a text of tokens that the model knows is still read."""
    source, target = gpt2(vocab_size=7_000), marian(decoder_vocab_size=2_500, share_encoder_decoder_embeddings=False)
    for model, target_text, n_tokens, token in ((source, None, 7_000, 7_488), (target, "the snake", 2_500, 7_488)):
        assert refused(model, "the snake", target=target_text) == (
            f"the tokenizer has 30,522 tokens and {type(model).__name__} knows {n_tokens:,}, so it cannot read token "
            f"{token}; give the model's own tokenizer with tokenizer=…."
        )
    assert len(regard.trace(source, "it was the", tokenizer=minilm.tokenizer).tokens) == 5


def test_a_text_that_is_too_long_is_refused_or_truncated(minilm, refused):
    text = "snake " * 1000
    assert refused(minilm.model, text) == (
        "the text is 1,002 tokens long and the model reads at most 512; "
        "shorten it, or read only its beginning with truncate=True."
    )
    assert len(regard.trace(minilm.model, text, tokenizer=minilm.tokenizer, truncate=True).tokens) == 512


def test_layers_that_are_not_there_are_refused(minilm, refused):
    assert refused(minilm.model, SNAKE, layers=[2, 7]) == "no layer 7 to trace: layers run from 0 to 5; nearest: 5."
    assert refused(minilm.model, SNAKE, layers=[]) == ("layers is empty; name layers from 0 to 5, or give layers=None.")


def test_each_kind_keeps_those_of_the_chosen_layers_that_it_has(minilm):
    trace = regard.trace(marian(), "the snake", target="it", tokenizer=minilm.tokenizer, layers=[2, 0])
    assert [list(layers) for layers in (trace.encoder, trace.decoder, trace.cross)] == [[0], [0, 2], [0, 2]]


def test_layers_bear_the_model_s_numbers_where_not_all_have_attention(minilm):
    config = transformers.Lfm2Config(
        vocab_size=30_522, hidden_size=24, intermediate_size=24, num_hidden_layers=4, num_attention_heads=3,
        num_key_value_heads=3, layer_types=["conv", "full_attention", "conv", "full_attention"],
    )  # fmt: skip
    model = transformers.Lfm2Model(config)
    trace = regard.trace(model, SNAKE, tokenizer=minilm.tokenizer)
    assert list(trace.decoder) == [1, 3]
    assert list(regard.trace(model, SNAKE, tokenizer=minilm.tokenizer, layers=[3]).decoder) == [3]
    assert repr(trace).endswith("decoder=2x3)")


def test_a_model_that_wants_more_than_a_text_is_refused(refused):
    vision, text = SIZES | {"image_size": 8, "patch_size": 4}, SIZES | {"vocab_size": 30_522}
    model = transformers.CLIPModel(transformers.CLIPConfig(text_config=text, vision_config=vision))
    assert refused(model, SNAKE).startswith("CLIPModel could not read its input: ")


def test_positions_that_begin_after_that_of_padding_are_counted_from_there(minilm, refused):
    config = transformers.RobertaConfig(vocab_size=30_522, max_position_embeddings=20, **SIZES)
    model = transformers.RobertaModel(config)
    assert len(regard.trace(model, "snake " * 16, tokenizer=minilm.tokenizer).tokens) == 18
    assert refused(model, "snake " * 17) == (
        "the text is 19 tokens long and the model reads at most 18; shorten it, or read only its beginning with "
        "truncate=True."
    )


def test_a_target_without_a_beginning_is_refused(refused):
    encoder = transformers.BertModel(transformers.BertConfig(**SIZES))
    decoder = transformers.BertConfig(**SIZES, is_decoder=True, add_cross_attention=True)
    model = transformers.EncoderDecoderModel(encoder=encoder, decoder=transformers.BertLMHeadModel(decoder))
    assert refused(model, "the snake", target="it") == (
        "EncoderDecoderModel does not say what its target begins with; set model.config.decoder_start_token_id."
    )


def test_a_tokenizer_that_wants_more_than_a_text_is_refused(minilm, monkeypatch, refused):
    monkeypatch.setattr(type(minilm.tokenizer), "__call__", lambda *args, **kwargs: {}[None])
    assert refused(minilm.model, SNAKE) == (
        f"{type(minilm.tokenizer).__name__} could not read the text: KeyError None; set what it needs (src_lang, "
        "tgt_lang where it knows languages) and give it with tokenizer=…."
    )


RANGE = "heads are named like L3H1 and run from L0H0 to L5H11; nearest:"


def test_names_that_are_no_head_of_the_trace_are_refused(snake, translated, without_type_checks):
    for name, message in (
        ("L3H12", f"no head 'L3H12'; {RANGE} L3H11, L3H10, L3H9."),
        ("H3L1", f"no head 'H3L1'; {RANGE} L5H3, L5H1, L4H3."),
        ("cross L3H1", "no attention of kind 'cross'; this trace has encoder."),
    ):
        assert refusal(InputError, snake.__getitem__, name) == message
    for name in (3, (3, 1)):
        assert refusal(TypeError, snake.__getitem__, name) == (
            f"a trace takes the name of a head, such as trace['L3H1']; got {name!r}: the pattern of a layer is "
            "trace.encoder[layer]."
        )
    assert refusal(InputError, translated.__getitem__, "L0H0") == (
        "this trace has encoder, decoder, cross attention; say which, as in 'cross L0H0' or kind='cross'."
    )


def test_a_notebook_shows_the_page(snake, tmp_path):
    shown = snake._repr_html_()
    parts = re.fullmatch(
        r'<div style="[^"]*"><img alt="([^"]*)" src="data:image/png;base64,([^"]*)">'
        r'<iframe title="regard" sandbox="allow-scripts" style="[^"]*" srcdoc="([^"]*)"></iframe></div>',
        shown,
    )
    assert html.unescape(parts[1]) == repr(snake)
    assert base64.b64decode(parts[2]).startswith(b"\x89PNG")
    assert html.unescape(parts[3]) == snake.html(tmp_path / "snake.html").read_text(encoding="utf-8")
    assert snake["L3H1"]._repr_png_().startswith(b"\x89PNG")


def test_a_notebook_makes_the_page_of_a_trace_once(handmade, monkeypatch):
    made = []
    monkeypatch.setattr("regard.views.page.notebook.page", lambda trace, *_: made.append(trace.text) or trace.text)
    first, second = handmade("a b c"), handmade("d e f")
    shown = [trace._repr_html_() for trace in (first, second, first, second)]
    assert made == ["a b c", "d e f"]
    assert shown[:2] == shown[2:]
    assert ['srcdoc="a b c"' in frame for frame in shown] == [True, False, True, False]
    freed = weakref.ref(first)
    del first
    gc.collect()
    assert freed() is None  # the stored page does not keep the trace


def test_a_notebook_says_why_it_shows_no_page(handmade, monkeypatch):
    monkeypatch.setattr("regard.views.page.notebook.MAX_WEIGHTS", 53)
    trace = handmade("<b> a c")
    assert trace._repr_html_() == (
        "<pre>Trace(&#x27;&lt;b&gt; a c&#x27;, model=&#x27;handmade&#x27;, tokens=3, encoder=2x3): 54 weights, and a "
        "notebook shows at most 53; write a page with trace.html(path), or trace fewer layers (layers=…).</pre>"
    )


def test_nan_in_a_model_is_named(minilm, refused):
    broken = copy.deepcopy(minilm.model)
    with torch.no_grad():
        broken.encoder.layer[2].attention.self.key.weight[5, 7] = torch.nan
    assert refused(broken, SNAKE) == (
        "MiniLM gives NaN in the key of encoder layer 2; its parameters are damaged, or too small a number type "
        "overflows: load it in float32."
    )


def test_a_model_that_answers_in_tuples_is_traced_too(minilm, snake):
    tuples = copy.deepcopy(minilm.model)
    tuples.config.return_dict = False
    trace = regard.trace(tuples, SNAKE, tokenizer=minilm.tokenizer)
    assert trace["L3H1"]["it", "snake"] == snake["L3H1"]["it", "snake"]


def test_two_threads_trace_one_model_one_after_the_other(minilm):
    model = copy.deepcopy(minilm.model).train()
    inside, traced = threading.Event(), []

    def slowly(module, inputs):
        inside.set()
        time.sleep(0.05)  # the other thread would come in now

    model.encoder.layer[1].register_forward_pre_hook(slowly)

    def look():
        traced.append(regard.trace(model, SNAKE, tokenizer=minilm.tokenizer)["L3H1"]["it", "snake"])

    threads = [threading.Thread(target=look) for _ in range(2)]
    threads[0].start()
    inside.wait(60)
    threads[1].start()
    for thread in threads:
        thread.join()
    assert [f"{weight:.3f}" for weight in traced] == ["0.674", "0.674"]
    assert model.config._attn_implementation == "sdpa"
    assert model.training


def test_layers_and_kinds_that_a_trace_lacks_are_refused(snake):
    assert snake.cross == {}
    for layers, layer, message in (
        (snake.encoder, 9, "no layer 9 to read encoder attention of: layers run from 0 to 5; nearest: 5."),
        (snake.encoder, "L3", "no layer 'L3': a layer is a number from 0 to 5."),
        (snake.cross, 0, "no layer 0: this trace has no cross attention."),
    ):
        assert refusal(InputError, layers.__getitem__, layer) == message


def test_a_rollout_over_two_texts_is_refused(translated):
    assert refusal(InputError, translated.rollout, "chat", "cross") == (
        "a rollout needs the self-attention of one text; give kind='encoder' or kind='decoder'."
    )
