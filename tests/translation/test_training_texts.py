"""Tests of lengths and scripts of training texts: measured on a corpus by hand, remarks, division, stored numbers."""

import math
from dataclasses import asdict, replace

import pytest
from trained_translator import train_translator

from regard.text.corpus import write_corpus
from regard.text.joined_corpus import JoinedCorpus
from regard.text.vocabulary import Vocabulary
from regard.translation.search.sampling import Sample
from regard.translation.training_texts import TrainingTexts
from regard.translation.translator import Translator

PAIRS = [("뱀", "snake"), ("<synthetic> 뱀 뱀", "a snake"), ("뱀 漢", "a snake ran a mile"), ("뱀", "snake")] * 5
LATIN = TrainingTexts(longest=9, smallest_ratio=0.1, largest_ratio=9.0, scripts=("Latin letters",))
SENTENCES = ["the cat sat.", "no dog ran.", "a dog ran."]


@pytest.fixture
def latin(translator):
    return replace(translator, extra={"training_texts": asdict(LATIN)})


def test_lengths_ratios_and_scripts_of_a_corpus(tmp_path):
    source = Vocabulary.train([text for text, _ in PAIRS], 300, tags=["<synthetic>"], byte_fallback=True)
    target = Vocabulary.train([text for _, text in PAIRS], 30)
    corpus = write_corpus(tmp_path, PAIRS, source, target, max_tokens=99, max_ratio=99.0)
    lengths = [(len(source.encode(one)), len(target.encode(other))) for one, other in PAIRS]
    ratios = [(n_target + 1) / (n_source + 1) for n_source, n_target in lengths]
    found = TrainingTexts.of(corpus, source)
    assert found.longest == max(n_source for n_source, _ in lengths)
    assert (found.smallest_ratio, found.largest_ratio) == pytest.approx((min(ratios), max(ratios)), rel=0.01)
    assert found.scripts == ("Hangul letters", "Chinese characters")
    assert TrainingTexts.of(JoinedCorpus([corpus, corpus], [1.0, 1.0]), source).scripts == found.scripts


@pytest.mark.parametrize(
    ("text", "script"),
    [("the cat", None), ("뱀 the", None), ("뱀은 the", None), ("뱀은 독사다 the", "Hangul letters"), ("12", None)],
)
def test_a_text_in_another_script_is_remarked_on(text, script):
    expected = script and f"written in {script}; the training texts are in Latin letters"
    assert LATIN.script_remark(text) == expected


def test_a_text_longer_than_the_training_texts_is_translated_by_its_sentences(latin, translator):
    text = " ".join(SENTENCES)
    found, short = latin.translate([text, SENTENCES[0]], split=True)
    apart = translator.translate(SENTENCES)
    assert len(found.source_ids) < translator.model.config.max_tokens
    assert [part.text for part in found.parts] == [one.text for one in apart]
    assert (found.unlike, short.parts) == ((), ())
    assert translator.translate([text], split=True)[0].parts == ()  # a folder without these numbers


def test_a_long_sentence_is_translated_whole_with_a_remark(latin):
    (one,) = latin.translate(["the cat sat on a mat and a dog ran"], split=True)
    n = len(one.source_ids) - 1
    assert n > LATIN.longest
    assert one.parts == ()
    assert one.unlike_source == (
        f"longer than the training texts: {n} pieces, and 999 of 1,000 training texts have at most 9",
    )


@pytest.mark.parametrize(
    ("limits", "word", "bound", "rounded"),
    [({"smallest_ratio": 9.05}, "shorter", "at least", math.ceil), ({"largest_ratio": 0.15}, "longer", "at most", int)],
)
def test_a_translation_of_an_unusual_length_is_remarked_on(translator, limits, word, bound, rounded):
    texts = replace(LATIN, **{"largest_ratio": 99.0, **limits})
    (one,) = replace(translator, extra={"training_texts": asdict(texts)}).translate(["the cat"])
    n_source, n_target = len(one.source_ids), len(one.target_ids) + 1
    limit = rounded(next(iter(limits.values())) * n_source)
    assert one.unlike == (
        f"the translation is much {word} than usual: {n_target} pieces for the {n_source} of the source; 999 of 1,000 "
        f"training pairs have {bound} {limit} for as many",
    )
    assert one.unlike_source == ()


def test_a_character_without_a_piece_is_named(translator):
    lines = ["the cat sat", "a dog ran"]
    source = Vocabulary.train(lines * 9, 300, byte_fallback=True)
    readable = train_translator(source, translator.target_vocabulary, dict.fromkeys(lines, "die katze"))
    usual = {"first": 0.0, "per_letter": 0.0, "surplus": -99.0, "score": -99.0}
    one, like = replace(readable, extra={"usual": usual}).translate(["the 😀 cat 漢", "the cat"], search=Sample())
    assert one.unlike == ("contains characters rare in the training texts: 😀, 漢",)
    assert like.unlike[0].startswith("unlike the training texts: ")


def test_the_numbers_are_stored_in_the_folder(latin, tmp_path):
    assert Translator.load(latin.save(tmp_path / "out"), "cpu").training_texts == LATIN
