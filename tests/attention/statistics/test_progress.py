"""Tests of progress reports while a long pattern is read: callbacks, and a progress bar only on a terminal."""

import pytest
import torch
from refusals import refusal

from regard import Ask, Causal, Softmax, Sparsemax, attend
from regard.attention import progress
from regard.attention.progress import report_to
from regard.attention.statistics.cpu import engine, plan

HEADS, TOKENS, ROWS = 3, 37, 5


@pytest.fixture
def inputs(normal, monkeypatch):
    monkeypatch.setattr(plan, "BLOCK_QUERIES", ROWS)
    monkeypatch.setattr(engine, "SECONDS_AT_ONCE", 0.0)
    return [normal(1, HEADS, TOKENS, 4) for _ in range(3)]


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", -1.0)


@pytest.fixture
def terminal(monkeypatch):
    """Make rich treat standard error as a terminal."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["compiled", "gathered"])
def test_progress_is_reported_in_steps_up_to_all_weights(inputs, dtype):
    told = []
    pattern = attend(*(part.to(dtype) for part in inputs)).pattern
    pattern.answer(Ask(), report=lambda done, of: told.append((done, of)))
    assert told[-1] == (HEADS * TOKENS**2,) * 2
    assert told == sorted(told)
    assert len(told) == (HEADS * -(-TOKENS // ROWS) if dtype == torch.float32 else 1)


def test_blocks_that_the_mask_leaves_out_do_not_count(inputs):
    told = []
    attend(*inputs, mask=Causal()).pattern.answer(Ask(), report=lambda done, of: told.append((done, of)))
    stops = [min(start + ROWS, TOKENS) for start in range(0, TOKENS, ROWS)]
    expected = HEADS * sum((stop - start) * stop for start, stop in zip(range(0, TOKENS, ROWS), stops, strict=True))
    assert told[-1] == (expected, expected)


def test_report_to_sets_the_callback_of_every_method(inputs):
    told = []
    with report_to(lambda done, of: told.append(done)):
        pattern = attend(*inputs, ask=Ask()).pattern
        asked_with_the_context = len(told)
        for ask in (pattern.summary, lambda: pattern.top(2), lambda: pattern.pooled(3, 3)):
            before = len(told)
            ask()
            assert len(told) == before + HEADS * -(-TOKENS // ROWS)
        with report_to(None):
            pattern.summary()
    assert asked_with_the_context == HEADS * -(-TOKENS // ROWS)
    assert len(told) == 4 * asked_with_the_context


@pytest.mark.usefixtures("without_type_checks")
def test_a_callback_that_is_no_function_is_refused():
    assert refusal(TypeError, report_to(3).__enter__) == (
        "report=3 is not a function report(done, total) of two numbers, nor None."
    )


def test_a_terminal_shows_a_bar_for_a_long_pass_and_clears_it(inputs, impatient, terminal, capsys):
    attend(*inputs).pattern.summary()
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "reading attention" in shown.err
    assert "100%" in shown.err
    assert "0:00:00" in shown.err  # the time that is left
    assert shown.err.endswith("\x1b[2K")  # the line is cleared


def test_a_short_pass_shows_no_bar(inputs, terminal, capsys):
    attend(*inputs).pattern.summary()
    assert capsys.readouterr().err == ""


def test_without_a_terminal_no_bar_is_shown(inputs, impatient, capsys, monkeypatch):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    attend(*inputs).pattern.summary()
    assert capsys.readouterr().err == ""


def test_a_bar_that_cannot_be_shown_is_not_tried_again(impatient, monkeypatch):
    tries = []
    monkeypatch.setattr(progress, "start_bar", lambda done, total: tries.append(done))
    bar = progress.ProgressBar()
    bar(1, 3)
    bar(2, 3)
    assert tries == [1]


def test_an_error_clears_the_bar(inputs, impatient, terminal, capsys, monkeypatch):
    def broken(self, done, of):
        bar(self, done, of)
        raise KeyboardInterrupt

    bar = progress.ProgressBar.__call__
    monkeypatch.setattr(progress.ProgressBar, "__call__", broken)
    with pytest.raises(KeyboardInterrupt):
        attend(*inputs).pattern.summary()
    assert capsys.readouterr().err.endswith("\x1b[2K")


def test_nothing_is_reported_of_a_pattern_without_queries():
    query, key = torch.randn(1, 2, 0, 8), torch.randn(1, 2, 5, 8)
    for normalise in (Softmax(), Sparsemax()):
        told = []
        with report_to(lambda done, total, told=told: told.append(done / total)):
            pattern = attend(query, key, key, normalise=normalise).pattern
            assert pattern.entropy().shape == (1, 2, 0)
            assert not pattern.received().any()
        assert told == []
