"""Texts that are too long: where they are divided, and how translations and alignments of the parts are joined."""

import pytest
import torch
from refusals import refusal
from torch.testing import assert_close

from regard import InputError
from regard.translation.alignment import Alignment
from regard.translation.long_texts import join_alignments, sentences_that_fit
from regard.translation.search.beam import Beam

SENTENCES = ["the cat sat on a mat.", "no dog ran.", "a dog ran to the cat and sat."]
LONG = " ".join(SENTENCES * 3)


def at_most(n):
    return lambda text: len(text) <= n


@pytest.mark.parametrize(
    ("text", "limit", "parts"),
    [
        ("Is it? It is! Well…  yes.", 9, ["Is it?", "It is!", "Well…", "yes."]),
        ("3.5 km. Mr. X", 9, ["3.5 km.", "Mr.", "X"]),
        ("今日は。明日も、明後日も。", 5, ["今日は。", "明日も、", "明後日も。"]),
        ("a, b, c; d", 5, ["a, b,", "c; d"]),
        ("一、二、三、四、五。", 6, ["一、二、三、", "四、五。"]),
        ("unbroken", 5, None),
        ("  ", 5, []),
    ],
)
def test_where_a_text_is_divided(text, limit, parts):
    assert sentences_that_fit(text, at_most(limit)) == parts


def test_a_long_text_is_translated_as_its_sentences_are(translator):
    short, joined, last = translator.translate(["no dog", LONG, "a mat"], split=True, search=Beam(4, n_best=2))
    apart = translator.translate(SENTENCES * 3, search=Beam(4, n_best=2))
    assert [short.text, last.text] == [one.text for one in translator.translate(["no dog", "a mat"], search=Beam(4))]
    assert (joined.source, joined.text) == (LONG, " ".join(one.text for one in apart))
    assert joined.log_probability == pytest.approx(sum(one.log_probability for one in apart), abs=1e-4)
    assert [one.text for one in joined.parts] == [one.text for one in apart]
    assert joined.candidates[1].text == " ".join(one.candidates[1].text for one in apart)
    assert joined.record()["parts"] == [one.text for one in apart]


def test_an_unknown_character_of_several_parts_is_named_once(translator):
    (joined,) = translator.translate([LONG.replace("cat", "cẞt")], split=True)
    assert joined.unknown == ("ẞ",)


def test_the_alignment_of_a_long_text_is_that_of_its_sentences(translator):
    (joined,) = translator.translate([LONG], split=True)
    expected, n_source, n_target = [], 0, 0
    for part in joined.parts:
        expected += [(source + n_source, target + n_target) for source, target in part.alignment.pairs]
        n_source += len(part.alignment.source_words)
        n_target += len(part.alignment.target_words)
    assert joined.alignment.pairs == tuple(expected)
    assert joined.alignment.source_words == tuple(LONG.split())
    assert joined.alignment.target_words == tuple(joined.text.split())
    assert refusal(InputError, lambda: joined.trace) == (
        "the text was too long and was translated in 9 parts, each with a trace of its own: translation.parts[0].trace."
    )


def test_a_word_that_two_parts_share_is_one_word():
    def part(source, target):
        return Alignment(
            source_words=(source,),
            target_words=(target,),
            source_pieces=(source, "</s>"),
            target_pieces=(target, "</s>"),
            piece_weights=torch.tensor([[0.75, 0.25], [0.0, 1.0]]),
            source_word_of=(0,),
            target_word_of=(0,),
        )

    parts = [part("今日は。", "today"), part("明日も。", "tomorrow")]
    joined = join_alignments("今日は。明日も。", "today tomorrow", parts)
    assert joined.source_words == ("今日は。明日も。",)
    assert joined.pairs == ((0, 0), (0, 1))
    parts = [part("today", "今日は。"), part("tomorrow", "明日も。")]
    back = join_alignments("today tomorrow", "今日は。明日も。", parts)
    assert (back.target_words, back.pairs) == (("今日は。明日も。",), ((0, 0), (1, 0)))
    assert_close(joined.piece_weights, torch.tensor([[0.75, 0, 0], [0, 0.75, 0.25], [0, 0.0, 1.0]]))


def test_what_cannot_be_divided_is_marked_and_keeps_its_place(translator):
    long = "no " * 40
    (first, second) = translator.translate([long, "no dog"], split=True)
    assert (first.text, first.untranslated, first.alignment.pairs) == (f"⁇ {long}", True, ())
    assert first.record()["untranslated"]
    assert second.text == translator.translate(["no dog"])[0].text
    assert not second.untranslated


def test_a_prefix_begins_the_first_sentence_only(translator):
    (joined,) = translator.translate([LONG], split=True, prefix="ein")
    assert joined.text.startswith("ein")
    assert joined.parts[1].text == translator.translate([SENTENCES[1]])[0].text
