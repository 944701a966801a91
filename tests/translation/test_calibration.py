"""Tests of calibrated scores: isotonic regression by its formula, the groups by hand, storing, expected chrF."""

import random
from dataclasses import asdict, replace
from itertools import pairwise

import pytest
from sacrebleu import sentence_chrf

from regard.translation.calibration import FEWEST_IN_GROUP, FEWEST_TEXTS, Calibration, rising_groups
from regard.translation.training_texts import TrainingTexts
from regard.translation.translator import Translator
from regard.translation.usual import UsualLimits

TEXTS = ["the cat sat", "no dog ran", "a dog sat on a mat", "the dog and the cat ran"] * 5
TARGETS = ["die katze sass", "kein hund lief", "ein hund sass auf einer matte", "der hund und die katze liefen"] * 5
SMALL = Calibration(mean_log_probability=(-2.0, -1.0, -0.5), chrf=(10.0, 40.0, 80.0))

LENGTHS = {"longest": 9, "smallest_ratio": 0.1, "largest_ratio": 9.0, "scripts": ["Latin letters"]}


def mean(numbers):
    return sum(numbers) / len(numbers)


def test_the_groups_are_those_of_isotonic_regression():
    generator = random.Random(7)
    for n in (1, 2, 3, 5, 11):
        chrf = [float(generator.randrange(10)) for _ in range(n)]
        # The value at i is the largest, over all starts, of the smallest mean, over all ends, of a run that contains i
        expected = [
            max(min(mean(chrf[start : end + 1]) for end in range(i, n)) for start in range(i + 1)) for i in range(n)
        ]
        groups = rising_groups([(float(i), value) for i, value in enumerate(chrf)])
        found = [mean([value for _, value in group]) for group in groups for _ in group]
        assert found == pytest.approx(expected)
        assert [place for group in groups for place, _ in group] == list(range(n))


def test_the_centres_of_groups_by_hand():
    scores = [-number / 10 for number in range(20)]
    # From the lowest score: five texts of 10, then 30 20 in turn (one group of ten), then five of 90
    chrf = [10.0] * 5 + [30.0, 20.0] * 5 + [90.0] * 5
    calibration = Calibration.of(scores, chrf[::-1])
    assert calibration.mean_log_probability == pytest.approx((-1.7, -0.95, -0.2))
    assert calibration.chrf == pytest.approx((10, 25, 90))
    assert calibration.expected_chrf(-1.325) == pytest.approx(17.5)
    assert calibration.expected_chrf(-9.0) == pytest.approx(10)
    assert calibration.expected_chrf(0.0) == pytest.approx(90)


def test_small_groups_join_and_too_few_texts_have_no_calibration():
    calibration = Calibration.of([float(n) for n in range(-22, 0)], [float(n) for n in range(22)])
    assert calibration.mean_log_probability == pytest.approx((-20, -15, -10, -4))  # groups of 5, 5, 5 and 7 texts
    assert calibration.chrf == pytest.approx((2, 7, 12, 18))
    equal = Calibration.of([-1.0] * 20, [float(n) for n in range(20)])
    assert equal == Calibration(mean_log_probability=(-1.0,), chrf=(9.5,))
    assert Calibration.of([-1.0] * (FEWEST_TEXTS - 1), [50.0] * (FEWEST_TEXTS - 1)) is None


def test_the_expected_chrf_rises_and_has_the_mean_of_the_dev_texts():
    generator = random.Random(3)
    scores = [-2 * generator.random() for _ in range(101)]
    chrf = [min(100.0, max(0.0, 100 + 50 * score + generator.gauss(0, 20))) for score in scores]
    calibration = Calibration.of(scores, chrf)
    expected = [calibration.expected_chrf(score) for score in sorted(scores)]
    assert all(one <= other for one, other in pairwise(expected))
    assert mean(expected) == pytest.approx(mean(chrf), abs=1)
    assert len(calibration.chrf) <= 101 / FEWEST_IN_GROUP


@pytest.mark.parametrize(
    ("kind", "name", "stored"),
    [
        *((Calibration, "calibration", stored) for stored in (None, {}, [1])),
        *((UsualLimits, "usual", stored) for stored in (None, {}, [1])),
        *((TrainingTexts, "training_texts", stored) for stored in (None, {}, [1])),
        *(
            (Calibration, "calibration", {"mean_log_probability": scores, "chrf": chrf})
            for scores, chrf in (
                *(([], []), ([-1.0], [1]), ([-1.0, -0.5], [1.0]), ([-1.0, -1.0], [1.0, 2.0])),
                *(([-1.0, float("nan")], [1.0, 2.0]), ([-1.0, -0.5], [2.0, 1.0]), ("-1", [2.0])),
            )
        ),
        (UsualLimits, "usual", {"score": -1.0}),
        (UsualLimits, "usual", {"letters_a_piece": 2.0, "score": -1.0}),
        (TrainingTexts, "training_texts", LENGTHS | {"longest": "9"}),
        (TrainingTexts, "training_texts", LENGTHS | {"scripts": [3]}),
    ],
)
def test_other_values_in_a_folder_are_not_used(kind, name, stored):
    assert kind.stored_in({name: stored}) is kind.stored_in({}) is None


def test_a_translation_has_the_expected_chrf_of_its_score(translator, tmp_path):
    folder = replace(translator, extra={"calibration": asdict(SMALL)}).save(tmp_path / "en-de")
    one, empty = Translator.load(folder, "cpu").translate(["the cat ran", ""])
    assert one.expected_chrf == SMALL.expected_chrf(one.mean_log_probability)
    record = one.record()
    assert record["expected_chrf"] == record["candidates"][0]["expected_chrf"] == round(one.expected_chrf, 1)
    assert record["mean_log_probability"] == round(one.mean_log_probability, 6)
    assert empty.expected_chrf is None
    assert empty.record()["expected_chrf"] is None
    assert translator.translate(["the cat ran"])[0].expected_chrf is None


LIKE_ALL = {"first": 9.0, "per_letter": 0.0, "surplus": 9.0, "score": -99.0}
"""Limits that every text and every translation is within."""


@pytest.mark.parametrize(
    ("usual", "text"),
    [(LIKE_ALL | {"score": -1e-9}, "the cat"), (LIKE_ALL | {"surplus": -99.0}, "the cat"), (LIKE_ALL, "the ẞ")],
)
def test_a_text_unlike_the_dev_texts_has_no_expected_chrf(translator, usual, text):
    unusual = replace(translator, extra={"calibration": asdict(SMALL), "usual": usual})
    assert unusual.translate([text])[0].expected_chrf is None
    usual_for_all = replace(unusual, extra={"calibration": asdict(SMALL), "usual": LIKE_ALL})
    assert usual_for_all.translate(["the cat"])[0].expected_chrf is not None


def test_parts_have_one_expected_chrf_together_and_an_untranslated_text_has_none(translator):
    calibrated = replace(translator, extra={"calibration": asdict(SMALL)})
    long, untranslated = calibrated.translate([" ".join(["the cat sat on a mat."] * 8), "no " * 40], split=True)
    assert long.parts
    total = sum(part.log_probability for part in long.parts)
    n_pieces = sum(len(part.target_ids) + 1 for part in long.parts)
    assert long.expected_chrf == pytest.approx(SMALL.expected_chrf(total / n_pieces))
    assert untranslated.untranslated
    assert untranslated.expected_chrf is None


def test_a_translator_is_calibrated_on_pairs_of_texts(translator):
    calibrated = translator.calibrated(TEXTS, TARGETS)
    assert translator.calibration is translator.usual is None
    found = calibrated.translate(TEXTS)
    assert calibrated.usual.score == pytest.approx(min(one.mean_log_probability for one in found), abs=0.05)
    chrf = [sentence_chrf(one.text, [target]).score for one, target in zip(found, TARGETS, strict=True)]
    assert calibrated.calibration == Calibration.of([one.mean_log_probability for one in found], chrf)
    few = translator.calibrated(TEXTS[:3], TARGETS[:3])
    assert few.usual is not None
    assert few.calibration is None
    assert few.extra["calibration"] is None
