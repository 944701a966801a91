"""Where a training stands: what counts as better, and that it survives JSON."""

import json

import pytest

from regard.training.state import Judged, Position, State


def judged(step=1, loss=1.0, bleu=10.0):
    return Judged(step=step, loss_nats=float(loss), bleu=float(bleu), averaged=1)


@pytest.mark.parametrize(
    ("metric", "new", "old", "better"),
    [
        ("bleu", judged(bleu=11, loss=2), judged(bleu=10, loss=1), True),
        ("bleu", judged(bleu=10, loss=2), judged(bleu=11, loss=3), False),
        ("bleu", judged(bleu=100, loss=0.5), judged(bleu=100, loss=0.6), True),
        ("bleu", judged(bleu=100, loss=0.6), judged(bleu=100, loss=0.6), False),
        ("loss", judged(bleu=11, loss=2), judged(bleu=10, loss=1), False),
        ("loss", judged(bleu=10, loss=1), judged(bleu=11, loss=2), True),
        ("loss", judged(bleu=11, loss=1), judged(bleu=10, loss=1), False),
        ("bleu", judged(bleu=0), None, True),
    ],
)
def test_which_is_better(metric, new, old, better):
    assert new.better_than(old, metric) is better


def test_evaluations_without_a_better_one_are_counted():
    state = State()
    for step, bleu in enumerate([10, 9, 8, 12, 12], start=1):
        state = state.judged(judged(step, bleu=bleu), "bleu", "best")
    assert (state.best.step, state.since_best) == (4, 1)


def test_as_long_as_the_loss_falls_bleu_may_go_up_and_down():
    state = State()
    for step, (bleu, loss) in enumerate([(0.4, 5.7), (0.1, 5.6), (0.2, 5.5), (0.3, 5.5), (0.3, 5.6)], start=1):
        state = state.judged(judged(step, loss, bleu), "bleu", "best")
    assert (state.best.step, state.least_loss_nats, state.since_best) == (1, 5.5, 2)


def test_as_long_as_bleu_rises_the_loss_may_rise_too():
    state = State()
    for step, (bleu, loss) in enumerate([(20, 1.7), (21, 1.8), (22, 1.9), (22, 1.95)], start=1):
        state = state.judged(judged(step, loss, bleu), "bleu", "best")
    assert (state.best.step, state.least_loss_nats, state.since_best) == (3, 1.7, 1)


@pytest.mark.parametrize(("keep", "kept"), [("best", [1, 1, 3, 3]), ("last", [1, 2, 3, 4])])
def test_what_is_kept(keep, kept):
    state, seen = State(), []
    for step, bleu in enumerate([10, 9, 12, 11], start=1):
        state = state.judged(judged(step, bleu=bleu), "bleu", keep)
        seen.append(state.kept.step)
    assert (seen, state.best.step, state.since_best) == (kept, 3, 1)


def test_it_survives_json():
    state = State(
        position=Position(step=7, epoch=2, batch=3), best=judged(5, 0.1 + 0.2, 1 / 3), since_best=1,
        kept=judged(7, 0.2, 0.3),
        least_loss_nats=0.1, snapshots=("step-5.safetensors", "step-7.safetensors"), elapsed_seconds=12.345678901234567,
    )  # fmt: skip
    assert State.from_json(json.loads(json.dumps(state.as_json()))) == state
    assert State.from_json(json.loads(json.dumps(State().as_json()))) == State()
