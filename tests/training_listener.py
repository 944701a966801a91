"""A watcher for tests of training, which stores what it is told and can stop the training."""

import signal

from regard.training.watcher import Watcher


class Listener(Watcher):
    """Stores all progress reports; at the log entry of step `stop_at` it asks training to stop, as Ctrl-C does."""

    def __init__(self, stop_at=None):
        self.stop_at, self.said, self.reports, self.evaluations = stop_at, [], [], []

    def say(self, text):
        self.said.append(text)

    def progress(self, entry, max_steps, left_seconds, best):
        self.reports.append(entry)
        if entry["step"] == self.stop_at:
            signal.raise_signal(signal.SIGINT)

    def evaluated(self, entry):
        self.evaluations.append(entry)
