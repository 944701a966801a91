"""The command `regard`, also `python -m regard` where it is not on the PATH."""

import os
import signal
from types import FrameType


def main() -> None:
    """Run the command line; Ctrl-C ends it with one line and status 130, also while packages are being imported."""
    signal.signal(signal.SIGINT, interrupt)
    from regard.cli.main import run

    run()


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt; during an import end the process, since packages that are imported may catch it.

    An import has nothing to undo and writes no file.
    """
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            os.write(2, b"regard: stopped\n")
            os._exit(130)
        frame = frame.f_back
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
