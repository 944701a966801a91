"""A translator keeps names, numbers and addresses of typed Korean lines, in translations, pieces and alignments."""

from dataclasses import replace
from types import SimpleNamespace
from unicodedata import normalize

import pytest
from trained_translator import train_translator

from regard.cli.remarks import remarks_on_translation
from regard.text.placeholders import Placeholders, with_sign_pieces
from regard.text.vocabulary import Vocabulary
from regard.training.evaluator import DevPairs, Evaluator
from regard.translation.long_texts import join_translations
from regard.translation.search.greedy import Greedy
from regard.translation.training_texts import TrainingTexts

PAIRS = {
    "⟐는 갔다": "⟐ left",
    "⟐은 왔다": "⟐ came",
    "⟐는 ⟡을 봤다": "⟐ saw ⟡",
    "⟐은 ⟡원이다": "⟐ is ⟡ won",
    "개가 갔다": "a dog left",
    "개는 왔다": "a dog came",
    "개는 개를 봤다": "a dog saw a dog",
}


@pytest.fixture(scope="module")
def translator():
    """A translator from Korean to English that has learnt to copy ⟐ and ⟡, the signs that replace names and numbers."""
    plain = (Vocabulary.train([*PAIRS] * 9, 40), Vocabulary.train([*PAIRS.values()] * 9, 40))
    source, target = map(with_sign_pieces, plain)
    return replace(train_translator(source, target, PAIRS), placeholders=Placeholders.of(source, target))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("Kotanu는 갔다", "Kotanu left"),
        (normalize("NFD", "Rene\u0301는 갔다"), "René left"),
        ("Kotanu는 https://a.example/b?c=1을 봤다", "Kotanu saw https://a.example/b?c=1"),
        ("me@a.example는  34,500을 봤다", "me@a.example saw 34,500"),
        ("A4은 34,500원이다", "A4 is 34,500 won"),
        ("⟡는 ⟐을 봤다", "⟡ saw ⟐"),
        ("개가 갔다", "a dog left"),
    ],
)
def test_names_prices_and_addresses_are_kept(translator, source, expected):
    (one,) = translator.translate([source], search=Greedy())
    assert one.text == expected
    assert one.source == source
    assert one.missing == ()
    assert one.alignment.source_words == tuple(source.split())
    assert one.alignment.target_words == tuple(expected.split())


def test_pieces_and_traces_show_the_item_in_place_of_its_sign(translator):
    (one,) = translator.translate(["Kotanu는 갔다"], search=Greedy())
    assert "Kotanu" in one.source_pieces
    assert one.target_pieces[:2] == ("▁", "Kotanu")
    assert "Kotanu" in [token.text for token in one.trace.tokens]


def test_without_placeholders_the_signs_are_not_used(translator):
    (one,) = replace(translator, placeholders=None).translate(["Kotanu는 갔다"])
    assert "Kotanu" not in one.text
    assert one.unknown
    (one,) = replace(translator, placeholders=None).translate(["⟐는 갔다"], search=Greedy())
    assert one.text == "⟐ left"


def test_prefixes_and_given_targets_may_have_the_items(translator):
    (one,) = translator.translate(["Kotanu는 34,500을 봤다"], prefix="Kotanu saw")
    assert one.text == "Kotanu saw 34,500"
    given, other = translator.score(["Kotanu는 갔다"] * 2, ["Kotanu left", "Kotanu came"])
    (found,) = translator.translate(["Kotanu는 갔다"], search=Greedy())
    assert given.text == "Kotanu left"
    assert given.target_pieces == found.target_pieces
    assert given.log_probability == pytest.approx(found.log_probability, abs=1e-4)
    assert other.log_probability < given.log_probability


@pytest.mark.parametrize(("truncate", "read"), [(False, "⟐⟡"), (True, "⟐")])
def test_a_search_knows_the_signs_that_the_model_reads(translator, truncate, read):
    given = []

    class Recording(Greedy):
        def run(self, model, sources):
            given.extend(sources.required)
            return super().run(model, sources)

    longer = "Kotanu는" + " 갔다" * (translator.model.config.max_tokens if truncate else 1) + " 34,500원이다"
    translator.translate(["개가 갔다", longer], search=Recording(), truncate=truncate)
    signs = frozenset(map(translator.target_vocabulary.processor.PieceToId, read))
    assert sorted(given, key=len) == [frozenset(), signs]


def test_an_item_that_the_translation_lacks_is_remarked_on(translator):
    (one,) = translator.score(["Kotanu는 34,500을 봤다"], ["Kotanu saw a dog"])
    assert one.missing == ("34,500",)
    assert "the translation lacks 34,500" in remarks_on_translation(one)
    assert one.record()["missing"] == ["34,500"]


@pytest.mark.usefixtures("without_type_checks")
def test_evaluations_of_a_training_put_the_items_back(translator):
    sources = translator.source_vocabulary.encode_all(["⟐는 갔다", "개가 갔다"])
    pairs = DevPairs(
        batches=SimpleNamespace(), sources=sources, signs=[{"Kotanu": "⟐"}, None], source_texts=[], target_texts=[]
    )
    vocabularies = {name: getattr(translator, name) for name in ("source_vocabulary", "target_vocabulary")}
    texts = TrainingTexts(longest=99, smallest_ratio=0.0, largest_ratio=99.0, scripts=())
    evaluator = Evaluator(model=translator.model, pairs=pairs, **vocabularies, training_texts=texts, smoothing=0.1)
    assert evaluator.translations() == ["Kotanu left", "a dog left"]


def test_a_long_text_keeps_the_items_of_each_sentence(translator):
    sentences = [f"Kotanu는 {number}을 봤다." for number in range(1_000, 1_006)]
    (one,) = translator.translate([" ".join(sentences)], search=Greedy(), split=True)
    assert len(one.parts) > 1
    for part in one.parts:
        assert all(item in part.text or item in part.missing for item in translator.placeholders.signs(part.source))
    lacking = [replace(part, missing=(f"{number}",)) for number, part in enumerate(one.parts)]
    assert join_translations(one.source, lacking).missing == tuple(map(str, range(len(lacking))))


def test_a_saved_translator_has_the_same_placeholders(translator, tmp_path):
    loaded = type(translator).load(translator.save(tmp_path / "ko-en"), "cpu")
    assert loaded.placeholders == translator.placeholders == Placeholders(latin=False)  # Korean has no Latin letters
