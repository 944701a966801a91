"""The choice of the token and head shown first, against its definition written as loops."""

import math

import pytest
import torch
from refusals import refusal

from regard import Causal, InputError, trace
from regard.tracing.focus import focus_on, is_whole_word, strongest_other_words
from regard.tracing.tokens.readable_tokens import Token


def saliences(trace, words):
    """Return, for the most salient weight of each head, (weight - mean weight of its key) · log(1 + distance²)."""
    found = {}
    for layer, pattern in trace.encoder.items():
        for head, weights in enumerate(pattern.dense()[0].tolist()):
            excess = {}
            for key in words:
                mean = sum(row[key] for row in weights) / len(weights)
                excess |= {(query, key): weights[query][key] - mean for query in words if query != key}
            query, key = max(excess, key=lambda pair: excess[pair] * abs(pair[0] - pair[1]))
            found[layer, head, query, key] = excess[query, key] * math.log(1 + (query - key) ** 2)
    return found


def test_the_most_salient_pair_of_all_is_chosen(handmade):
    trace = handmade("a b c d e f g")
    found = saliences(trace, range(7))
    layer, head, query, _ = max(found, key=found.get)
    focus = focus_on(trace)
    assert (focus.head.layer, focus.head.head, focus.query) == (layer, head, query)


def test_added_tokens_and_punctuation_are_neither_queries_nor_keys(snake):
    words = [i for i, token in enumerate(snake.tokens) if token.text.isalpha()]
    found = saliences(snake, words)
    layer, head, query, _ = max(found, key=found.get)
    focus = focus_on(snake)
    assert (focus.head.layer, focus.head.head, focus.query) == (layer, head, query)


@pytest.mark.parametrize(
    ("text", "token", "key"),
    [
        (
            "The committee that approved the grants asked the applicants for more details about how they planned to "
            "use the money.",
            "they",
            "applicants",
        ),
        (
            "When the storm reached the village, the fishermen had already pulled their boats onto the beach.",
            "their",
            "fishermen",
        ),
    ],
)
def test_a_large_weight_is_chosen_before_a_middling_one_on_a_more_distant_word(text, token, key):
    focus = focus_on(trace("MiniLM", text))
    assert (focus.head.name, focus.token.text, focus.head.top(focus.query, 1)[0].token.text) == ("L3H1", token, key)


def test_a_byte_or_a_letter_within_a_word_is_not_shown_first():
    he, apostrophe, s, byte = (
        Token(text, text, joined) for text, joined in (("he", False), ("'", True), ("s", True), ("‹98›", True))
    )
    assert is_whole_word([he, apostrophe, s, byte]).tolist() == [True, False, False, False]
    assert is_whole_word([apostrophe, s, byte]).tolist() == [False, True, True]
    assert is_whole_word([Token("뱀", "뱀", True), Token("a", "a")]).tolist() == [True, True]


def test_it_looks_at_the_snake_without_being_told_the_head(snake):
    focus = focus_on(snake, token="it")
    assert focus.head.name == "L3H1"
    assert focus.token.text == "it"


def test_a_head_or_a_layer_narrows_the_choice(snake):
    assert focus_on(snake, head="L2H8").head.name == "L2H8"
    assert focus_on(snake, layer=5).head.layer == 5
    focus = focus_on(snake, token="venom", head="l0h3")
    assert (focus.head.name, focus.token.text) == ("L0H3", "venom")


def test_the_focus_is_found_where_the_pattern_is(handmade):
    """As on a GPU, a tensor that is made without a device cannot be combined with the pattern's: it is on "meta"."""
    trace = handmade("a b c d e f g")
    expected = focus_on(trace)
    with torch.device("meta"):
        found, looks = focus_on(trace), strongest_other_words(trace.heads(), expected.query)
    assert (found.head.name, found.query) == (expected.head.name, expected.query)
    assert [look[1:] for look in looks] == [look[1:] for look in strongest_other_words(trace.heads(), expected.query)]


def test_a_head_named_without_a_kind_is_of_the_last_kind(translated):
    assert focus_on(translated, head="L1H0").head.kind == "cross"
    assert focus_on(translated, head="encoder L0H0").head.kind == "encoder"


def test_the_weights_of_a_long_text_are_compared_in_parts(handmade, monkeypatch):
    trace = handmade(" ".join(f"w{i}" for i in range(23)), mask=Causal())
    whole = focus_on(trace)
    monkeypatch.setattr("regard.tracing.focus.WEIGHTS_AT_ONCE", 300)
    parts = focus_on(trace)
    assert (parts.head.name, parts.query) == (whole.head.name, whole.query)


def test_the_strongest_other_word_is_never_the_token_itself(snake):
    looks = strongest_other_words(snake.heads(), query=7)
    assert len(looks) == 72
    by_name = {head.name: (key, weight) for head, key, weight in looks}
    assert by_name["L3H1"] == (2, pytest.approx(float(snake.encoder[3].dense()[0, 1, 7, 2]), rel=1e-6))
    assert all(key != 7 for _, key, _ in looks)
    assert [weight for _, _, weight in looks] == sorted((weight for _, _, weight in looks), reverse=True)


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"layer": 9}, "no layer 9 to look at: layers run from 0 to 5; nearest: 5."),
        ({"head": "L3H1", "layer": 2}, "no layer 2 to look at: head L3H1 is in layer 3."),
        ({"token": "snakes"}, "no token 'snakes' in the text; nearest: snake, has, dangerous."),
    ],
)
def test_layers_heads_and_tokens_that_do_not_fit_are_refused(snake, chosen, message):
    assert refusal(InputError, focus_on, snake, **chosen) == message


def test_the_look_that_is_chosen_is_at_another_word(handmade):
    causal = handmade("the snake", mask=Causal(), kind="decoder")
    assert focus_on(causal).token.text == "snake"
    assert focus_on(causal, token="the").token.text == "the"
    assert focus_on(handmade("- snake .")).token.text == "snake"
    assert focus_on(handmade("- + *")).query in range(3)


def test_heads_in_which_a_token_looks_at_no_other_word_are_left_out(handmade):
    assert strongest_other_words(handmade("- snake .").heads(), query=1) == []
    masked = handmade("a b c", mask=Causal(), kind="decoder")
    assert strongest_other_words(masked.heads(), query=0) == []
    assert {key for _, key, _ in strongest_other_words(masked.heads(), query=1)} == {0}
    assert len(strongest_other_words(masked.heads(), query=1)) == 6
