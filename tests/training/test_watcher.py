"""Progress where standard error is no terminal: a line at regular intervals, whatever is going on."""

import threading

from regard.training import watcher
from regard.training.watcher import Terminal


def test_a_long_task_is_told_again_and_again(monkeypatch, capsys):
    monkeypatch.setattr(watcher, "QUIET_SECONDS", 0.01)
    told, lines = threading.Event(), []

    with Terminal() as terminal:
        monkeypatch.setattr(terminal.console, "print", lambda text, markup: (lines.append(text), told.set()))
        terminal.busy("making the vocabulary")
        told.clear()
        assert told.wait(60)
        assert lines[-1].startswith("still running, 0:")
        assert lines[-1].endswith(": making the vocabulary")
    terminal.quiet_printer.join(60)
    assert not terminal.quiet_printer.is_alive()


def test_the_current_task_is_training_from_the_first_step_on():
    terminal = Terminal()
    terminal.busy("dividing the texts into pieces")
    terminal.stepped(0, 1_260)
    assert terminal.description == "training: step 0 of 1,260"
    terminal.stepped(7, 1_260)
    assert terminal.description == "training: step 7 of 1,260"
    entry = {"step": 50, "epoch": 2, "loss_nats": 6.5, "learning_rate": 1e-3, "tokens_per_second": 999}
    terminal.progress(entry, 1_260, 75.0, None)
    terminal.stepped(51, 1_260)
    assert (
        terminal.description
        == "step 50/1,260 · epoch 3 · loss 6.500 · rate 1.00e-03 · 999 tokens/s · at most 1:15 left"
    )
