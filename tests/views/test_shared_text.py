"""Tests of the words and number formats that all views share."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from pictures import caption

from regard import Causal, Trace
from regard.tracing.decoder_note import DECODER_NOTE, decoder_note
from regard.tracing.focus import focus_on
from regard.tracing.tokens.places import Frame, Patch
from regard.tracing.tokens.readable_tokens import Token
from regard.views.picture.heads import heads_figure
from regard.views.picture.trace import figure
from regard.views.shared_text import CAUTION, single_line, token_label
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


def test_every_picture_says_once_that_attention_is_not_an_explanation(handmade, capsys):
    trace = handmade("a b c d", n_layers=1)
    patches = tuple(Token(f"p{i}", f"p{i}", place=Patch(0, i // 2, i % 2, 8.0, 8.0)) for i in range(4))
    frames = tuple(Token(f"f{i}", f"f{i}", place=Frame(float(i), i + 1.0)) for i in range(4))
    picture = replace(trace, source=patches, images=(torch.rand(3, 16, 16),))
    traces = trace, picture, replace(trace, source=frames)
    drawn = [heads_figure(trace), *(figure(one, focus_on(one)) for one in traces)]
    assert [caption(one).count(CAUTION) for one in drawn] == [1, 1, 1, 1]
    trace.show()
    assert capsys.readouterr().out.count(CAUTION) == 1


def test_the_page_says_the_same_sentences():
    words = Path(__file__).parents[2].joinpath("front/src/words.ts").read_text(encoding="utf-8")
    assert f'  caution: ["{CAUTION}",\n' in words
    assert f'  decoderNote: ["{DECODER_NOTE}",\n' in words
