"""Tests of chats and token ids as the input of `trace`, against the tokenizer's template and transformers' generate."""

import pytest
import torch
from random_models import gpt2, t5
from refusals import refusal
from torch.testing import assert_close

import regard
from regard import InputError

CHAT = [
    {"role": "user", "content": "The snake is dangerous?"},
    {"role": "assistant", "content": "It has a venom."},
    {"role": "user", "content": "Why?"},
]
TEMPLATE = (
    "{% for message in messages %}[CLS] {{ message.role }}: {{ message.content }} [SEP]{% endfor %}"
    "{% if add_generation_prompt %}[CLS] assistant:{% endif %}"
)


@pytest.fixture
def tokenizer(minilm, monkeypatch):
    monkeypatch.setattr(minilm.tokenizer, "chat_template", TEMPLATE, raising=False)
    return minilm.tokenizer


@pytest.fixture(scope="module")
def writer():
    return gpt2()


def encoded_chat(tokenizer, **options):
    return tokenizer.apply_chat_template(CHAT, return_tensors="pt", return_dict=True, **options)


def test_a_chat_is_read_by_its_template(writer, tokenizer):
    trace = regard.trace(writer, CHAT, tokenizer=tokenizer)
    encoded = encoded_chat(tokenizer)
    ids = encoded.input_ids
    assert [token.piece for token in trace.tokens] == tokenizer.convert_ids_to_tokens(ids[0].tolist())
    assert trace.text.startswith("[CLS] user: The snake is dangerous? [SEP]")
    assert [token.text for token in trace.tokens if token.special] == ["[CLS]", "[SEP]"] * 3
    with torch.no_grad():
        assert_close(trace.output, writer(**encoded).logits)


@pytest.mark.parametrize("kind", ["chat", "list", "tensor"])
def test_the_model_writes_the_next_message(writer, tokenizer, kind):
    ids = encoded_chat(tokenizer, add_generation_prompt=True).input_ids
    given = {"chat": CHAT, "list": ids[0].tolist(), "tensor": ids}[kind]
    trace = regard.trace(writer, given, tokenizer=tokenizer, new_tokens=4)
    expected = writer.generate(input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=4)
    assert [token.piece for token in trace.tokens] == tokenizer.convert_ids_to_tokens(expected[0].tolist())
    assert [written.position for written in trace.written] == list(range(ids.shape[1], expected.shape[1]))
    assert trace.check().max_error < 1e-4


def test_ids_are_read_as_they_are(minilm, snake):
    ids = minilm.tokenizer(snake.text).input_ids
    trace = regard.trace(minilm.model, ids, tokenizer=minilm.tokenizer)
    assert [token.piece for token in trace.tokens] == [token.piece for token in snake.tokens]
    assert trace.text.casefold() == snake.text.casefold()
    assert_close(trace.output, snake.output)
    bare = regard.trace(minilm.model, torch.tensor(ids[1:-1]), tokenizer=minilm.tokenizer)
    assert len(bare.tokens) == len(ids) - 2
    long = regard.trace(minilm.model, ids * 90, tokenizer=minilm.tokenizer, truncate=True)
    assert len(long.tokens) == 512


def test_an_encoder_decoder_reads_ids(minilm):
    model, ids = t5(), minilm.tokenizer("The snake.").input_ids
    by_ids, by_text = (
        regard.trace(model, given, target="It is.", tokenizer=minilm.tokenizer) for given in (ids, "The snake.")
    )
    assert_close(by_ids.output, by_text.output)


def test_a_model_without_a_tokenizer_reads_token_ids(writer):
    trace = regard.trace(writer, [5, 6, 7], new_tokens=2)
    ids = writer.generate(torch.tensor([[5, 6, 7]]), max_new_tokens=2, do_sample=False)[0].tolist()
    assert [token.text for token in trace.tokens] == [f"[{number}]" for number in ids]
    assert trace.text == " ".join(f"[{number}]" for number in ids)
    assert trace["L0H1"]["[6]"].tolist() == trace.decoder[0][0, 1, 1].tolist()
    assert_close(regard.trace(writer, torch.tensor(ids[:3])).output, writer(torch.tensor([ids[:3]])).logits)
    assert refusal(InputError, regard.trace, writer, "The snake.") == (
        "the model was not loaded by a name or from a folder, so give its tokenizer: tokenizer=…."
    )
    assert refusal(TypeError, regard.trace, writer, torch.tensor([ids, ids])) == (
        f"the text is a torch.int64 tensor of shape [2, {len(ids)}]; token ids are integers of one text, [tokens] or "
        "[1 tokens]; for several texts call trace for each."
    )


def test_what_cannot_be_read_is_refused(writer, minilm, tokenizer, without_type_checks):
    def read(given, **options):
        regard.trace(writer, given, tokenizer=tokenizer, **options)

    assert refusal(InputError, read, [-1, 2]) == (
        "the token ids are empty or negative; give at least one id, each from 0 on."
    )
    assert refusal(InputError, read, []) == refusal(InputError, read, torch.ones(1, 0, dtype=torch.long))
    assert refusal(InputError, read, [40_000]) == (
        "token id 40000 is given and GPT2LMHeadModel knows 30,522 tokens; give ids from 0 to 30521."
    )
    assert refusal(InputError, read, [5] * 1025) == (
        "the text is 1,025 tokens long and the model reads at most 512; shorten it, or read only its beginning with "
        "truncate=True."
    )
    assert refusal(TypeError, read, [0.5]) == (
        "the text is a list; give one text, a str, or trace several one by one: "
        "[regard.trace(model, text) for text in texts]."
    )
    tokenizer.chat_template = "{{ raise_exception('roles must alternate') }}"
    assert refusal(InputError, read, CHAT) == (
        "the chat template of BertTokenizer does not take these messages: TemplateError roles must alternate; give "
        'messages such as {"role": "user", "content": "Hello"}.'
    )
    tokenizer.chat_template = None
    assert refusal(InputError, read, CHAT) == (
        "BertTokenizer has no chat template, so it takes no messages; give the text itself, or set "
        "tokenizer.chat_template."
    )
    assert refusal(TypeError, read, [5, 6], images=torch.zeros(3, 8, 8)) == (
        "beside images=…, video=… or audio=… the text must be a str; got a list."
    )
