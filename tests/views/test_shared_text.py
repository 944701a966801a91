"""Tests of the words and number formats that all views share."""

import pytest

from regard import Causal, Trace
from regard.tracing.tokens.readable_tokens import Token
from regard.views.shared_text import DECODER_NOTE, decoder_note, single_line, token_label
from regard.visible_text import escape_controls


def test_one_of_several_is_called_by_its_number():
    tokens = [Token(word, word) for word in ["it", "is", "it"]]
    assert [token_label(position, tokens) for position in range(3)] == ["it:1", "is", "it:2"]


def test_no_control_character_is_left():
    controls = "".join(map(chr, (*range(0x20), *range(0x7F, 0xA0))))
    assert escape_controls(controls).isprintable()
    assert len(set(map(escape_controls, controls))) == len(controls)
    assert escape_controls("뱀 is\u200d “it”") == "뱀 is\u200d “it”"


def test_a_title_is_one_line():
    assert single_line(" a\n\tb \x1b[31mc\n") == "a b ‹1B›[31mc"


@pytest.mark.parametrize(("kind", "text"), [("encoder", ""), ("decoder", DECODER_NOTE), ("cross", DECODER_NOTE)])
def test_the_target_s_side_of_an_encoder_decoder_is_explained(handmade, kind, text):
    one = handmade("a b c")
    both = Trace(model="m", text="a", target_text="b", source=one.source, target=one.source, attended=one.attended)
    assert decoder_note(both, kind) == text
    assert decoder_note(handmade("a b c", mask=Causal(), kind="decoder"), kind) == ""
