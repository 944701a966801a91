"""Tests of traces of a prompt with the text that the model generates, and of the memory while `generate` is watched."""

import gc

import pytest
import torch
import transformers
from random_models import gpt2, t5
from refusals import refusal
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch.testing import assert_close

import regard
from regard import InputError
from regard.tracing.generation import next_tokens
from regard.tracing.watching.shared_cache import CACHE_OF

TEXT = "The snake is very dangerous"


@pytest.fixture(scope="module")
def writer():
    return gpt2()


def generated(model, tokenizer, n, **options):
    ids = {"input_ids": tokenizer(TEXT, return_tensors="pt").input_ids}
    with torch.no_grad():
        return model.generate(**ids, max_new_tokens=n, output_logits=True, return_dict_in_generate=True, **options)


def test_prompt_and_answer_are_one_trace(writer, minilm, tmp_path):
    expected = generated(writer, minilm.tokenizer, 9)
    trace = regard.trace(writer, TEXT, tokenizer=minilm.tokenizer, new_tokens=9)
    ids = expected.sequences[0].tolist()
    assert [token.piece for token in trace.tokens] == minilm.tokenizer.convert_ids_to_tokens(ids)
    n_read = len(ids) - len(expected.logits)
    assert [written.position for written in trace.written] == list(range(n_read, len(ids)))
    for written, logits in zip(trace.written, expected.logits, strict=True):
        probabilities = logits[0].softmax(dim=-1)
        assert written.token == trace.tokens[written.position]
        assert written.probability == pytest.approx(float(probabilities[ids[written.position]]), rel=1e-4)
        assert [p for _, p in written.alternatives] == pytest.approx(probabilities.topk(5).values.tolist(), rel=1e-4)
        assert written.alternatives[0][0] == written.token.text  # greedy
    assert trace.text.startswith(TEXT)
    assert trace.check().max_error < 1e-5
    assert repr(trace).endswith(f"written={len(expected.logits)})")
    assert regard.Trace.load(trace.save(tmp_path / "written.safetensors")).written == trace.written


def test_the_patterns_of_the_answer_are_those_of_its_generation(writer, minilm):
    trace = regard.trace(writer, TEXT, tokenizer=minilm.tokenizer, new_tokens=9)
    with regard.watching(writer) as watched:
        generated(writer, minilm.tokenizer, 9)
    for layer in (0, 1):
        position = 0
        for pattern in (step.attended.pattern for step in watched.steps if step.layer == layer):
            n_queries, n_keys = pattern.shape[2:]
            row = trace.decoder[layer][:, :, position : position + n_queries, :n_keys]
            assert_close(pattern.dense(), row, rtol=1e-4, atol=1e-5)
            position += n_queries
        assert position == len(trace.tokens) - 1  # the last token is written and never read


def test_an_encoder_decoder_writes_its_target(minilm):
    model = t5(std=0.2, eos_token_id=102)
    options = {"num_beams": 3, "max_new_tokens": 7, "eos_token_id": 102}
    search = transformers.GenerationConfig(**options, decoder_start_token_id=0, pad_token_id=0)
    trace = regard.trace(model, TEXT, tokenizer=minilm.tokenizer, generation=search)
    expected = model.generate(minilm.tokenizer(TEXT, return_tensors="pt").input_ids, generation_config=search)
    assert [token.piece for token in trace.target] == minilm.tokenizer.convert_ids_to_tokens(expected[0].tolist())
    assert trace.kinds == ("encoder", "decoder", "cross")
    assert [written.position for written in trace.written] == list(range(1, expected.shape[1]))
    assert trace.target_text == minilm.tokenizer.decode(expected[0], skip_special_tokens=True)


def test_a_text_ends_with_a_stop_string(writer, minilm):
    whole = regard.trace(writer, TEXT, tokenizer=minilm.tokenizer, new_tokens=9)
    stop = whole.written[4].token.piece.removeprefix("##")
    search = transformers.GenerationConfig(max_new_tokens=9, stop_strings=[stop])
    trace = regard.trace(writer, TEXT, tokenizer=minilm.tokenizer, generation=search)
    assert trace.text.endswith(stop)
    assert 1 <= len(trace.written) <= 5
    assert trace.tokens == whole.tokens[: len(trace.tokens)]


def test_changes_hold_while_the_model_writes(writer, minilm):
    silent = [regard.Silence("L0"), regard.Silence("L1")]
    with regard.changed(writer, silent):
        expected = generated(writer, minilm.tokenizer, 9).sequences[0].tolist()
    trace = regard.trace(writer, TEXT, tokenizer=minilm.tokenizer, new_tokens=9, changes=silent)
    assert [token.piece for token in trace.tokens] == minilm.tokenizer.convert_ids_to_tokens(expected)
    assert not trace.decoder[0].dense().any()


def test_what_cannot_write_is_refused(writer, minilm):
    def write(model=writer, **options):
        regard.trace(model, TEXT, tokenizer=minilm.tokenizer, **options)

    for model in (minilm.model, transformers.BertLMHeadModel(minilm.model.config)):
        assert refusal(InputError, write, model, new_tokens=3) == (
            "BertModel writes no text; give a model that does, such as GPT-2, Llama or T5, with its language modelling "
            "head, as AutoModelForCausalLM or AutoModelForSeq2SeqLM loads it."
        )
    assert refusal(InputError, write, new_tokens=0) == "new_tokens=0: give the number of tokens to write, at least 1."
    assert refusal(InputError, write, new_tokens=3, target="Die Schlange") == (
        "with target the model reads a text, with new_tokens it writes one; give only one of them."
    )
    several = transformers.GenerationConfig(num_return_sequences=2, do_sample=True, max_new_tokens=2)
    assert refusal(InputError, write, generation=several) == (
        "a trace follows one text; give a GenerationConfig with num_return_sequences=1."
    )
    short = gpt2(n_layer=1, n_positions=9)
    assert refusal(InputError, write, short, new_tokens=7) == (
        "GPT2LMHeadModel could not write: IndexError index out of range in self."
    )


def bytes_held(tensors):
    """Return the bytes of memory that tensors hold, shared memory counted once."""
    storages = [tensor.untyped_storage() for tensor in tensors]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


@pytest.mark.parametrize("n", [10, 200])
def test_a_watched_generation_holds_one_cache(writer, minilm, n):
    with regard.watching(writer) as watched:
        ids = generated(writer, minilm.tokenizer, n, min_new_tokens=n).sequences
    vector = 48 * 4  # bytes of one token's query, key, value or context in a layer
    once = 2 * ids.shape[1] * vector * 4  # queries, keys, values and contexts of two layers
    seen = [step.attended for step in watched.steps]
    assert bytes_held(tensor for one in seen for tensor in (*one.pattern.call.tensors, one.context)) <= 1.25 * once
    assert watched.check().max_error < 1e-5
    longest = watched.steps[-1].attended.pattern
    assert watched.steps[0].attended.pattern.key.data_ptr() == watched.steps[-2].attended.pattern.key.data_ptr()
    assert longest.shape[3] == ids.shape[1] - 1


@pytest.fixture
def installed_writer(writer):
    yield regard.install(writer)
    regard.uninstall(writer)


def patterns_of(outputs):
    return [pattern for step in outputs.attentions for pattern in step]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_the_patterns_of_a_generation_hold_one_cache_after_install(writer, installed_writer, minilm, mode):
    options = {"return_dict_in_generate": True, "output_attentions": True, "max_new_tokens": 120}
    ids = minilm.tokenizer(TEXT, return_tensors="pt").input_ids
    with mode():
        outputs = installed_writer.generate(input_ids=ids, min_new_tokens=120, **options)
        held = bytes_held(tensor for pattern in patterns_of(outputs) for tensor in pattern.call.tensors)
        n = outputs.sequences.shape[1]
        assert held <= 1.25 * 2 * n * 48 * 4 * 3  # queries, keys and values of two layers
        regard.uninstall(writer)
        writer.set_attn_implementation("eager")
        expected = writer.generate(input_ids=ids, min_new_tokens=120, **options)
        writer.set_attn_implementation("sdpa")
        assert torch.equal(outputs.sequences, expected.sequences)
        for pattern, weights in zip(patterns_of(outputs), patterns_of(expected), strict=True):
            assert_close(pattern.dense(), weights, atol=1e-5, rtol=1e-4)


def n_shared():
    """Return the number of patterns whose keys are stored in a shared cache."""
    gc.collect()
    return len(CACHE_OF)


def test_patterns_that_nobody_keeps_cost_nothing(installed_writer, minilm):
    before = n_shared()
    with torch.no_grad():
        ids = minilm.tokenizer(TEXT, return_tensors="pt").input_ids
        installed_writer.generate(input_ids=ids, max_new_tokens=5, min_new_tokens=5)
        assert n_shared() == before
        options = {"return_dict_in_generate": True, "output_attentions": True}
        outputs = installed_writer.generate(input_ids=ids, max_new_tokens=5, min_new_tokens=5, **options)
    assert n_shared() == before + 2 * 5
    last = outputs.attentions[3][1]
    del outputs
    assert n_shared() == before + 1
    assert last.dense().sum(dim=-1) == pytest.approx(torch.ones(1, 4, 1), abs=1e-5)


def test_steps_that_do_not_continue_the_last_share_nothing(installed_writer, minilm):
    ids = minilm.tokenizer(TEXT, return_tensors="pt").input_ids
    before = n_shared()
    with torch.no_grad():
        kept = [installed_writer(ids[:, first : first + n], output_attentions=True) for first, n in ((0, 3), (1, 5))]
        assert n_shared() == before
        again = [installed_writer(ids[:, first : first + n], output_attentions=True) for first, n in ((0, 3), (1, 5))]
    for outputs, other in zip(kept, again, strict=True):
        for pattern, same in zip(outputs.attentions, other.attentions, strict=True):
            assert torch.equal(pattern.dense(), same.dense())
    options = {"return_dict_in_generate": True, "output_attentions": True}
    with torch.no_grad():
        beams = installed_writer.generate(input_ids=ids, max_new_tokens=6, num_beams=3, **options)
    for pattern in patterns_of(beams):
        assert_close(pattern.dense().sum(dim=-1), torch.ones(pattern.shape[:3]))


def test_beams_and_gradients_share_nothing_wrongly(writer, minilm):
    with regard.watching(writer) as watched:
        generated(writer, minilm.tokenizer, 6, num_beams=3)
    assert watched.check().max_error < 1e-5
    with regard.watching(writer) as watched:
        for n in (4, 5):
            writer(minilm.tokenizer(TEXT, return_tensors="pt").input_ids[:, :n])
    assert watched.steps[0].attended.pattern.key.requires_grad
    assert watched.check().max_error < 1e-5


def test_next_tokens_show_spaces_parts_of_letters_and_ids_without_an_entry():
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({piece: i for i, piece in enumerate([*alphabet, "Ġa"])}, [("Ġ", "a")]))
    tokenizer.decoder = decoders.ByteLevel()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer)
    fast.add_special_tokens({"eos_token": "<end>"})
    logits = torch.full((260,), -9.0)
    ids = [fast.convert_tokens_to_ids(piece) for piece in ("Ġa", "Ċ", "ë")] + [fast.eos_token_id, 259]
    logits[ids] = torch.tensor([5.0, 4.0, 3.0, 2.0, 1.0])
    found = next_tokens(fast, logits, 5)
    assert [text for text, _ in found] == [" a", "⏎", "‹EB›", "<end>", "[259]"]
    assert_close(torch.tensor([share for _, share in found]), logits.softmax(0)[ids])


def test_the_text_of_a_trace_has_the_line_breaks_and_spaces_that_the_model_wrote():
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({piece: i for i, piece in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer)
    wanted = fast("a\n\n b")["input_ids"]
    model = gpt2(std=0.3, vocab_size=256, n_layer=1, n_head=2, n_embd=16)
    forced = transformers.GenerationConfig(max_new_tokens=5, sequence_bias=[[[i], 1e4] for i in wanted], do_sample=True)
    torch.manual_seed(3)
    trace = regard.trace(model, "x ", tokenizer=fast, generation=forced)
    ids = fast.convert_tokens_to_ids([token.piece for token in trace.tokens])
    assert trace.text == fast.decode(ids)
    assert "\n" in trace.text
