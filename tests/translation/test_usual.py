"""Tests of remarks on texts unlike the dev texts: percentiles by hand, the remarks' texts, storing the limits."""

from dataclasses import asdict, replace

import numpy as np
import pytest

from regard.translation.translator import Translator
from regard.translation.usual import UsualLimits


def test_the_limits_are_percentiles_about_a_fitted_line():
    letters = np.arange(101) % 5 + 4
    surplus = np.arange(101) / 100
    pieces = np.rint(2 + letters / 2 + 9 * surplus * letters**0.5).astype(int)
    usual = UsualLimits.of(letters.tolist(), pieces.tolist(), (-surplus).tolist())
    first, per_letter = np.linalg.lstsq(
        np.stack([letters**-0.5, letters**0.5], axis=1), pieces / letters**0.5, rcond=None
    )[0]
    assert (usual.first, usual.per_letter) == pytest.approx((first, per_letter))
    within = (pieces - first - per_letter * letters) / letters**0.5 <= usual.surplus
    assert within.sum() >= 100
    assert (pieces - first - per_letter * letters > (usual.surplus - 0.5) * letters**0.5).sum() > 1
    assert usual.score == pytest.approx(-0.99)
    assert UsualLimits.of([0], [0], [-1.0]) is UsualLimits.of([], [], []) is None
    assert UsualLimits.of([4, 4], [1, 3], [-1.0, -2.0]).per_letter == 0.5


def test_remarks_name_the_numbers_and_what_is_usual():
    usual = UsualLimits(first=1.0, per_letter=0.25, surplus=1.0, score=-1.5)
    assert [*usual.piece_count_remark(16, 9), *usual.probability_remark(-1.5)] == []
    assert [*usual.piece_count_remark(16, 10), *usual.probability_remark(-1.75)] == [
        "unlike the training texts: 10 pieces for 16 letters; about 5 are usual",
        "the translation is less probable than usual: score -1.75, and 99 of 100 dev texts have at least -1.50",
    ]


def test_a_short_common_text_is_as_seldom_remarked_as_a_long_one():
    """A text is a sum of words of 4 letters, each one piece, or seldom three."""
    draw = np.random.default_rng(0)
    words = np.repeat([1, 2, 5, 20], 5000)
    pieces = words + 2 * draw.binomial(words, 0.1)
    usual = UsualLimits.of((4 * words).tolist(), pieces.tolist(), [0.0] * len(words))
    for n in (1, 2, 5, 20):
        remarked = [bool([*usual.piece_count_remark(4 * n, int(count))]) for count in pieces[words == n]]
        assert np.mean(remarked) < 0.05
    assert [*usual.piece_count_remark(80, 60)]


def test_usual_sentences_are_a_usual_text(translator):
    """`first` counts once for each sentence: a text of many usual sentences gets no remark."""
    usual = UsualLimits(first=4.0, per_letter=0.0, surplus=0.0, score=-1e9)
    texts = {"longest": 9, "smallest_ratio": 0.2, "largest_ratio": 0.5, "scripts": []}
    model = replace(translator, extra={"usual": asdict(usual), "training_texts": texts})
    one, many = model.translate(["a dog ran.", " ".join(["a dog ran."] * 5)], split=True, prefix=["", ""])
    assert (one.n_parts, many.n_parts, many.n_source_pieces) == (1, 5, 5 * one.n_source_pieces)
    assert (one.n_source_pieces, one.unlike_source, many.unlike_source) == (4, (), ())
    parts = replace(many, target_ids=(7,) * 5)  # one piece and one EOS for each sentence: as many as of a single one
    assert parts.unlike == replace(one, target_ids=(7,)).unlike == ()


def test_a_translator_keeps_what_is_usual_for_it(translator, tmp_path):
    usual = UsualLimits(first=0.0, per_letter=0.0, surplus=0.0, score=-1e-9)
    folder = replace(translator, extra={"usual": asdict(usual)}).save(tmp_path / "en-de")
    one, empty = Translator.load(folder).translate(["the cat ran", ""])
    assert one.n_letters == len("thecatran")
    assert len(one.unlike) == 2
    assert one.record()["unlike"] == list(one.unlike)
    assert empty.unlike == translator.translate(["the cat ran"])[0].unlike == ()
