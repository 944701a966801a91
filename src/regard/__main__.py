"""The command `regard`. If it is not on the PATH, `python -m regard` runs it."""

import atexit
import gc
import os
import signal
import sys
from types import FrameType
from typing import NoReturn

STOPPED = 130
"""The exit status after Ctrl-C."""


def main() -> NoReturn:
    """Run the command line and end the process; after Ctrl-C, with one line of text and status 130."""
    # A shell starts a background process with SIGINT ignored. Python then sets no handler, and neither does regard.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    # Imports make little garbage. Python looks for it after 700 new objects by default; to look after 50,000 saves a
    # fifth of the time of `regard look`.
    gc.set_threshold(50_000)
    try:
        from regard.cli.main import run

        run()
        status: int | str | None = 0
    except KeyboardInterrupt:
        print("regard: stopped", file=sys.stderr)
        status = STOPPED
    except SystemExit as stop:
        status = stop.code
    end_process(status)


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, as the handler of the signal SIGINT (Ctrl-C).

    During an import, end the process instead: an imported package may catch KeyboardInterrupt.
    """
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            os.write(2, b"regard: stopped\n")
            end_process(STOPPED)
        frame = frame.f_back
    raise KeyboardInterrupt


def end_process(status: int | str | None) -> NoReturn:
    """End the process without Python's usual clean-up, which takes PyTorch almost a second."""
    atexit._run_exitfuncs()
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.flush()
    os._exit(status if isinstance(status, int) else int(status is not None))  # None = success; a text = failure


if __name__ == "__main__":
    main()
