"""Tests of the state of a training: comparing results, and conversion to JSON and back."""

import json
from dataclasses import asdict

import pytest
from refusals import refusal

from regard.training.training_state import DevResult, Position, TrainingState


def result(step=1, loss=1.0, bleu=10.0):
    return DevResult(step=step, loss_nats=float(loss), bleu=float(bleu), averaged=1)


@pytest.mark.parametrize(
    ("metric", "new", "old", "better"),
    [
        ("bleu", result(bleu=11, loss=2), result(bleu=10, loss=1), True),
        ("bleu", result(bleu=10, loss=2), result(bleu=11, loss=3), False),
        ("bleu", result(bleu=100, loss=0.5), result(bleu=100, loss=0.6), True),
        ("bleu", result(bleu=100, loss=0.6), result(bleu=100, loss=0.6), False),
        ("loss", result(bleu=11, loss=2), result(bleu=10, loss=1), False),
        ("loss", result(bleu=10, loss=1), result(bleu=11, loss=2), True),
        ("loss", result(bleu=11, loss=1), result(bleu=10, loss=1), False),
        ("bleu", result(bleu=0), None, True),
    ],
)
def test_which_is_better(metric, new, old, better):
    assert new.better_than(old, metric) is better


@pytest.mark.parametrize(
    ("evaluations", "best", "lowest_loss", "since_best"),
    [
        ([(10, 1), (9, 1), (8, 1), (12, 1), (12, 1)], 4, 1, 1),
        ([(0.4, 5.7), (0.1, 5.6), (0.2, 5.5), (0.3, 5.5), (0.3, 5.6)], 1, 5.5, 2),  # a lower loss is progress
        ([(20, 1.7), (21, 1.8), (22, 1.9), (22, 1.95)], 3, 1.7, 1),  # so is a higher BLEU
    ],
)
def test_evaluations_without_progress_are_counted(evaluations, best, lowest_loss, since_best):
    state = TrainingState()
    for step, (bleu, loss) in enumerate(evaluations, start=1):
        state = state.after_evaluation(result(step, loss, bleu), "bleu", "best")
    assert (state.best.step, state.lowest_loss_nats, state.since_best) == (best, lowest_loss, since_best)


@pytest.mark.parametrize(("keep", "kept"), [("best", [1, 1, 3, 3]), ("last", [1, 2, 3, 4])])
def test_the_best_or_the_last_result_is_kept(keep, kept):
    state, seen = TrainingState(), []
    for step, bleu in enumerate([10, 9, 12, 11], start=1):
        state = state.after_evaluation(result(step, bleu=bleu), "bleu", keep)
        seen.append(state.kept.step)
    assert (seen, state.best.step, state.since_best) == (kept, 3, 1)


def test_json_keeps_every_value():
    state = TrainingState(
        position=Position(step=7, epoch=2, batch=3), best=result(5, 0.1 + 0.2, 1 / 3), since_best=1,
        kept=result(7, 0.2, 0.3),
        lowest_loss_nats=0.1, snapshots=("step-5.safetensors", "step-7.safetensors"),
        elapsed_seconds=12.345678901234567,
    )  # fmt: skip
    assert TrainingState.from_json(json.loads(json.dumps(asdict(state)))) == state
    assert TrainingState.from_json(json.loads(json.dumps(asdict(TrainingState())))) == TrainingState()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"position": [1]}, TypeError, "Position must be an object"),
        ({"position": {"step": "3"}}, TypeError, "step='3' must be int."),
        ({"position": {"step": -1}}, ValueError, "a number is below 0"),
        ({"since_best": -1}, ValueError, "a number is below 0"),
        ({"best": {"steps": 1}}, TypeError, "DevResult has no 'steps'."),
        ({"snapshots": ["../model.safetensors"]}, ValueError, "a snapshot is not in the folder of snapshots"),
        ({"elapsed_seconds": None}, TypeError, "elapsed_seconds=None must be float."),
        ({"more": 1}, TypeError, "TrainingState has no 'more'."),
    ],
)
def test_what_is_no_state_is_refused(change, error, message):
    assert refusal(error, TrainingState.from_json, asdict(TrainingState()) | change) == message
