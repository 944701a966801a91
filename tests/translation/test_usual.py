"""Tests of remarks on texts unlike the dev texts: percentiles by hand, the remarks' texts, storing the limits."""

from dataclasses import asdict, replace

import pytest

from regard.translation.translator import Translator
from regard.translation.usual import UsualLimits


def test_the_first_percentiles_of_letters_a_piece_and_of_scores():
    usual = UsualLimits.of([float(n) for n in range(1, 102)], [-n / 100 for n in range(1, 102)])
    assert (usual.letters_a_piece, usual.score) == pytest.approx((2, -1.0))
    assert UsualLimits.of([], []) is None


def test_remarks_name_the_number_and_what_is_usual():
    usual = UsualLimits(letters_a_piece=2.0, score=-1.5)
    assert [*usual.rare_pieces(2.0), *usual.improbable(-1.5)] == []
    assert [*usual.rare_pieces(4 / 3), *usual.improbable(-1.75)] == [
        "unlike the training texts: 1.33 letters a piece, and 99 of 100 dev texts have at least 2.00",
        "the translation is less probable than usual: score -1.75, and 99 of 100 dev texts have at least -1.50",
    ]


@pytest.mark.parametrize("kept", [None, {}, {"score": -1.0}, {"score": "low", "letters_a_piece": 2.0}, [1]])
def test_a_folder_without_these_numbers_gives_no_remarks(kept):
    assert UsualLimits.stored_in({"usual": kept}) is None
    assert UsualLimits.stored_in({}) is None


def test_a_translator_keeps_what_is_usual_for_it(translator, tmp_path):
    usual = UsualLimits(letters_a_piece=50.0, score=-1e-9)
    folder = replace(translator, extra={"usual": asdict(usual)}).save(tmp_path / "en-de")
    one, empty = Translator.load(folder).translate(["the cat ran", ""])
    assert one.letters_a_piece == len("thecatran") / (len(one.source_ids) - 1)
    assert len(one.unlike) == 2
    assert one.record()["unlike"] == list(one.unlike)
    assert empty.unlike == translator.translate(["the cat ran"])[0].unlike == ()
