"""Ctrl-C and the signal that clusters send before they kill: the step is finished and saved, then training stops."""

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopping:
    """Was training asked to stop? A second Ctrl-C stops at once, as everywhere.

    >>> with Stopping() as stopping:
    ...     signal.raise_signal(signal.SIGTERM)
    ...     stopping.asked
    True
    """

    def __init__(self, say: Callable[[str], None] = lambda _: None) -> None:
        self.asked = False
        self.say = say
        self.before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Stopping":
        if threading.current_thread() is threading.main_thread():  # only there may signals be caught
            self.before = {number: signal.signal(number, self.ask) for number in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def ask(self, number: int, frame: FrameType | None) -> None:
        """Note it the first time; hand it on the second."""
        if self.asked:
            self.__exit__(None, None, None)
            signal.raise_signal(number)
        self.asked = True
        self.say("stopping after this step; once more stops at once")
