"""Stopping training by a signal: after SIGINT (Ctrl-C) or SIGTERM, training finishes its step, saves and ends."""

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopHandler:
    """Within a with-block, the first SIGINT or SIGTERM only sets `requested`; a second signal has its usual effect.

    >>> with StopHandler() as handler:
    ...     signal.raise_signal(signal.SIGTERM)
    ...     handler.requested
    True
    """

    def __init__(self, say: Callable[[str], None] = lambda _: None) -> None:
        self.requested = False
        self.say = say
        self.previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "StopHandler":
        if threading.current_thread() is threading.main_thread():  # Python allows signal handlers only there
            self.previous = {number: signal.signal(number, self.handle) for number in SIGNALS}
        return self

    def __exit__(self, *raised: object) -> None:
        for number, handler in self.previous.items():
            signal.signal(number, handler)

    def handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            self.__exit__()  # restores the earlier handlers, one of which handles the signal
            signal.raise_signal(number)
        self.requested = True
        self.say("stopping after this step; a second signal stops at once")
