"""Evaluation: sacreBLEU's own functions as the reference, cases by hand, the laws of the tables, every refusal."""

import re
import sys

import numpy as np
import pytest
import sacrebleu
from refusals import refusal
from sacrebleu.metrics import BLEU, CHRF

from regard import InputError
from regard.evaluation import evaluate as room
from regard.evaluation.evaluate import check_lines, evaluate

REFERENCE = [
    "a man in a blue shirt is standing on a ladder cleaning a window .",
    "two dogs run across the green field .",
    "yes .",
    "a girl is jumping rope on a sidewalk near a parking garage in the city today .",
    "people are fixing the roof of a house .",
]
HYPOTHESIS = [
    "a man in a blue shirt stands on a ladder cleaning a window .",
    "two dogs run across the green field .",
    "no .",
    "A girl jumps rope on a side walk near a garage in the city .",
    "people are fixing the roof of a house .",
]
OTHER = [
    "a man is on a ladder .",
    "two dogs ran across a green field .",
    "yes .",
    "a girl with a rope near a parking garage .",
    "people are fixing a roof .",
]


def scores(evaluation):
    return {score.name: score.value for score in evaluation.scores}


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("tokenize", ["13a", "intl", "char"])
def test_scores_and_signatures_are_sacrebleus(tokenize, lowercase):
    evaluation = evaluate(HYPOTHESIS, REFERENCE, tokenize=tokenize, lowercase=lowercase)
    bleu = sacrebleu.corpus_bleu(HYPOTHESIS, [REFERENCE], tokenize=tokenize, lowercase=lowercase)
    ours = [line.lower() for line in HYPOTHESIS] if lowercase else HYPOTHESIS
    expected = {
        "BLEU": bleu.score,
        "chrF2": sacrebleu.corpus_chrf(ours, [REFERENCE]).score,
        "TER": sacrebleu.corpus_ter(HYPOTHESIS, [REFERENCE]).score,
    }
    assert scores(evaluation) == pytest.approx(expected, abs=1e-12)
    case, version = "lc" if lowercase else "mixed", sacrebleu.__version__
    assert [score.signature for score in evaluation.scores] == [
        f"BLEU|nrefs:1|case:{case}|eff:no|tok:{tokenize}|smooth:exp|version:{version}",
        f"chrF2|nrefs:1|case:{case}|eff:yes|nc:6|nw:0|space:no|version:{version}",
        f"TER|nrefs:1|case:lc|tok:tercom|norm:no|punct:yes|asian:no|version:{version}",
    ]


def test_scores_with_several_references_are_sacrebleus():
    evaluation = evaluate(HYPOTHESIS, REFERENCE, OTHER)
    assert scores(evaluation)["BLEU"] == pytest.approx(sacrebleu.corpus_bleu(HYPOTHESIS, [REFERENCE, OTHER]).score)
    assert "nrefs:2" in evaluation.scores[0].signature
    assert evaluate(OTHER, REFERENCE, OTHER).exact == 100


@pytest.mark.parametrize("tokenize", ["zh", "char"])  # char: chosen for short lines, and these have no spaces
def test_chinese_is_counted_by_letters(tokenize):
    right, wrong = ["一个男人站在梯子上"], ["一个女人站在梯子上"]
    evaluation = evaluate(wrong, right, tokenize=tokenize)
    # The third of nine letters is another one: in one of nine single ones, two of eight pairs, three of seven, of six.
    precisions = np.array([8 / 9, 6 / 8, 4 / 7, 3 / 6])
    assert scores(evaluation)["BLEU"] == pytest.approx(100 * precisions.prod() ** 0.25)
    assert scores(evaluation)["TER"] == pytest.approx(100 / 9)
    assert [(group.least, group.most) for group in evaluation.by_length] == [(6, 10)]


def test_short_lines_with_spaces_have_a_ter_of_words():
    assert scores(evaluate(["사만 이천칠"], ["사만 이천팔"], tokenize="char"))["TER"] == 50


def test_the_share_of_lines_that_are_their_reference_by_hand():
    assert evaluate(HYPOTHESIS, REFERENCE).exact == 40
    assert evaluate(["Yes", " no "], ["yes", "no"]).exact == 50
    assert evaluate(["Yes", " no "], ["yes", "no"], lowercase=True).exact == 100
    assert evaluate(["a", "b"], ["a", "a"], against=["b", "b"]).other_exact == 0


# A second system


def test_the_bootstrap_is_paired_and_counts_differences_that_chance_makes():
    """Draw sacreBLEU's samples with its seed, and score each by a call of its own."""
    evaluation = evaluate(HYPOTHESIS, REFERENCE, against=OTHER)
    drawn = np.random.default_rng(12345).choice(5, size=(1000, 5), replace=True)

    def sampled(hypotheses, metric):
        cache = {}
        for rows in map(tuple, np.sort(drawn)):
            if rows not in cache:
                some, right = [hypotheses[i] for i in rows], [REFERENCE[i] for i in rows]
                cache[rows] = metric.corpus_score(some, [right]).score
        return np.array([cache[tuple(rows)] for rows in np.sort(drawn)])

    for score, metric in zip(evaluation.scores[:2], (BLEU(), CHRF()), strict=True):
        ours, theirs = sampled(HYPOTHESIS, metric), sampled(OTHER, metric)
        seen = abs(metric.corpus_score(HYPOTHESIS, [REFERENCE]).score - metric.corpus_score(OTHER, [REFERENCE]).score)
        by_chance = abs(ours - theirs) - abs(ours - theirs).mean() > seen
        assert score.comparison.p_value == pytest.approx((by_chance.sum() + 1) / 1001)
        low, high = np.sort(ours)[[25, 974]]
        assert score.comparison.interval == pytest.approx((high - low) / 2, abs=1e-4)


def test_a_comparison_has_both_scores_and_says_in_the_signature_that_it_drew_samples():
    evaluation, alone = evaluate(HYPOTHESIS, REFERENCE, against=OTHER), evaluate(HYPOTHESIS, REFERENCE)
    other = evaluate(OTHER, REFERENCE)
    assert scores(evaluation) == pytest.approx(scores(alone))
    assert {score.name: score.comparison.other for score in evaluation.scores} == pytest.approx(scores(other))
    assert all("|bs:1000|seed:12345|" in score.signature for score in evaluation.scores)
    assert evaluation.other_exact == other.exact == 20
    assert alone.other_exact is None
    assert all(score.comparison is None for score in alone.scores)


# The tables


def test_by_length_is_the_score_of_those_lines_alone():
    groups = {(group.least, group.most): group for group in evaluate(HYPOTHESIS, REFERENCE).by_length}
    rows = {(1, 5): [2], (6, 10): [1, 4], (11, 20): [0, 3]}
    assert list(groups) == list(rows)
    for bounds, lines in rows.items():
        some, right = [HYPOTHESIS[i] for i in lines], [REFERENCE[i] for i in lines]
        assert groups[bounds].n_lines == len(lines)
        assert groups[bounds].chrf == pytest.approx(sacrebleu.corpus_chrf(some, [right]).score)
        if bounds != (1, 5):
            assert groups[bounds].bleu == pytest.approx(sacrebleu.corpus_bleu(some, [right]).score)
    assert groups[1, 5].bleu is None  # two words have no four that follow each other
    assert [group.exact for group in groups.values()] == [0, 100, 0]


@pytest.mark.parametrize(
    ("words", "bounds"),
    [(0, (1, 5)), (5, (1, 5)), (6, (6, 10)), (20, (11, 20)), (21, (21, 40)), (80, (41, 80)), (81, (81, None))],
)
def test_a_length_at_a_border_belongs_to_the_shorter_group(words, bounds):
    (group,) = evaluate(["a"], [" ".join(["a"] * words)]).by_length
    assert (group.least, group.most) == bounds


def test_an_empty_line_that_is_its_reference_is_no_worst_line():
    lines = ["", "a b c d e", "f g h i j"]
    evaluation = evaluate(lines, [*lines[:2], "f g h i k"])
    assert [(one.line, one.chrf == 100) for one in evaluation.sentences] == [(3, False), (1, True), (2, True)]


def test_the_worst_lines_come_first():
    evaluation = evaluate(HYPOTHESIS, REFERENCE, OTHER, source=list("abcde"), against=OTHER)
    chrf = CHRF()
    expected = {i + 1: chrf.sentence_score(HYPOTHESIS[i], [REFERENCE[i], OTHER[i]]).score for i in range(5)}
    assert [line.line for line in evaluation.sentences] == sorted(expected, key=expected.get)
    worst = evaluation.sentences[0]
    assert (worst.line, worst.source, worst.hypothesis, worst.other) == (3, "c", "no .", "yes .")
    assert worst.references == ("yes .", "yes .")
    assert {line.line: line.chrf for line in evaluation.sentences} == expected
    alone = evaluate(HYPOTHESIS, REFERENCE).sentences[0]
    assert (alone.source, alone.other) == (None, None)


# Refusals


SAME_SENTENCE = "line n of each must belong to the same sentence."


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: evaluate(["a"] * 1200, ["b"] * 1199),
            f"hypothesis has 1,200 lines and reference 1 has 1,199 lines; {SAME_SENTENCE}",
        ),
        (
            lambda: evaluate(["a"], ["b"], against=["a", "b"]),
            f"hypothesis has 1 line and against has 2 lines; {SAME_SENTENCE}",
        ),
        (lambda: evaluate([], []), "hypothesis has no lines; give at least one."),
        (lambda: evaluate(["a"]), "there is no reference to compare with; give at least one."),
        (lambda: check_lines({"x.de": []}), "x.de has no lines; give at least one."),
        (
            lambda: evaluate(["a"], ["a"], tokenize="ja-mecap"),
            f"no tokenizer 'ja-mecap'; nearest: ja-mecab, ko-mecab; there are {', '.join(BLEU.TOKENIZERS)}.",
        ),
    ],
)
def test_lines_and_tokenizers_that_do_not_fit_are_refused(call, message):
    assert refusal(InputError, call) == message


def test_a_tokenizer_whose_dictionary_is_not_installed_is_refused(monkeypatch):
    def without(*arguments, **named):
        raise RuntimeError("Japanese tokenization requires extra\n  dependencies.")

    monkeypatch.setattr("sacrebleu.metrics.BLEU.__init__", without)
    assert refusal(InputError, evaluate, ["a"], ["a"], tokenize="ja-mecab") == (
        "the tokenizer ja-mecab cannot run here: Japanese tokenization requires extra dependencies."
    )


def test_more_lines_than_a_bootstrap_takes_are_refused(monkeypatch):
    monkeypatch.setattr(room, "MAX_COMPARED", 2)
    assert refusal(InputError, evaluate, ["a"] * 3, ["a"] * 3, against=["a"] * 3) == (
        "3 lines are more than the 2 lines on which two systems can be compared; give a part of the lines."
    )


def test_without_sacrebleu_its_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics", None)
    message = refusal(InputError, evaluate, ["a"], ["a"])
    assert re.fullmatch(r"this needs the package .*pip install 'regard\[translation\]'\.", message)
