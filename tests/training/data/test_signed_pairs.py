"""Pairs with signs: how many are added, when signs are used, and that `train` writes them."""

import json

import pytest
from refusals import refusal

from regard import InputError
from regard.text.corpus import Corpus
from regard.text.parallel import Report
from regard.text.placeholders import SIGNS, Placeholders
from regard.text.vocabulary import Vocabulary
from regard.training.data.signed_pairs import names_for, signed_pairs, with_signs_if_learnt
from regard.training.train import train
from regard.translation.translator import Translator

KOREAN = Placeholders(latin=False)
TOM = [("오늘 톰은 왔다", "Today Tom came"), ("어제 톰이 잤다", "Yes, Tom slept")]


def has_sign(pair):
    return any(sign in text for text in pair for sign in SIGNS)


def test_one_pair_is_added_for_five_pairs_of_the_corpus():
    report = Report()
    found = list(signed_pairs(TOM * 50, KOREAN, names_for(KOREAN, TOM * 50), report))
    assert [pair for pair in found if not has_sign(pair)] == TOM * 50
    assert sum(map(has_sign, found)) == 100 // 5
    assert (report.signed, report.named) == (0, 20)


def test_items_of_both_texts_become_signs_and_no_pair_is_added():
    report = Report()
    (pair,) = signed_pairs([("Kotanu가 왔다", "Kotanu came")], KOREAN, {}, report)
    assert has_sign(pair)
    assert (report.signed, report.named) == (1, 0)


@pytest.mark.parametrize(("n_pairs", "used"), [(99, False), (100, True)])
def test_signs_are_used_if_a_hundred_pairs_have_items(n_pairs, used):
    vocabularies = Vocabulary.train(["톰은 갔다"] * 9, 30), Vocabulary.train(["Tom left"] * 9, 30)
    pairs = [("123쪽", "page 123")] * n_pairs + [("톰은 갔다", "he left")] * 50
    found = with_signs_if_learnt(vocabularies, lambda: iter(pairs))
    assert (Placeholders.of(*found) is not None) == used
    assert used or found is vocabularies


def write(folder, n_pairs):
    words = [(f"오늘 톰은 {chr(0xAC00 + n)} 왔다", f"Today Tom came {n}") for n in range(n_pairs)]
    for side, name in enumerate(("a.ko", "a.en")):
        (folder / name).write_text("".join(f"{pair[side]}\n" for pair in words), encoding="utf-8")
    return folder / "a.ko", folder / "a.en"


@pytest.mark.parametrize(("chosen", "used"), [(None, True), (False, False)])
def test_training_learns_signs_by_default_between_scripts(tmp_path, quick, chosen, used):
    config = quick(max_steps=2, vocabulary={"placeholders": chosen, "n_tokens": None}, data={"dev_pairs": 20})
    train(*write(tmp_path, 600), tmp_path / "out", config)
    data, translator = tmp_path / "out/data", Translator.load(tmp_path / "out", "cpu")
    report = json.loads((data / "report.json").read_text())
    corpus = Corpus(data / "train")
    assert translator.placeholders == (KOREAN if used else None)
    assert report["signed"] == 0
    assert report["named"] == (580 // 5 if used else 0)
    vocabularies = translator.source_vocabulary, translator.target_vocabulary
    signs = [
        [
            [sign for sign in SIGNS if sign in vocabulary.decode(ids.tolist())]
            for vocabulary, ids in zip(vocabularies, corpus[number], strict=True)
        ]
        for number in range(len(corpus))
    ]
    assert all(source == target for source, target in signs)
    assert sum(len(source) for source, _ in signs) == report["named"]


def test_placeholders_need_two_vocabularies(tmp_path, quick):
    config = quick(vocabulary={"placeholders": True, "joint": True})
    message = (
        "vocabulary.placeholders = true needs a vocabulary for each language; give vocabulary.joint = false, or leave "
        "it out."
    )
    assert refusal(InputError, train, *write(tmp_path, 30), tmp_path / "out", config) == message
