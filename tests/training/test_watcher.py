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
        assert lines[-1].startswith("still at it after 0:")
        assert lines[-1].endswith(": making the vocabulary")
    terminal.heartbeat.join(60)
    assert not terminal.heartbeat.is_alive()
