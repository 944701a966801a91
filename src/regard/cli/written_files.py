"""Check the files that a subcommand of `regard` is about to write, and print which files it has written."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from regard.errors import InputError
from regard.visible_text import escape_controls


def check_outputs(outputs: Sequence[Path], inputs: Iterable[Path | None] = ()) -> None:
    """Check that every output can be written, is named once, and does not replace an input.

    Args:
        inputs: the files that the subcommand reads; None = an input that is not given.

    Raises:
        InputError: an output cannot be written, is also an input, or is named twice.
    """
    from regard.views.output_file import check_writable

    read = [path for path in inputs if path is not None and path.exists()]
    for position, output in enumerate(outputs):
        check_writable(output)
        if output.exists() and any(output.samefile(path) for path in read):
            raise InputError(f"cannot write {output}: it is an input of this command; name another file.")
        is_file = output.is_file() or not output.exists()  # /dev/null may be named twice
        if is_file and output.resolve() in [earlier.resolve() for earlier in outputs[:position]]:
            raise InputError(f"cannot write {output}: two options name it; name another file for one of them.")


def print_written(outputs: Sequence[Path]) -> None:
    """Print an empty line and the names of the written files; print nothing if `outputs` is empty."""
    if outputs:
        print()
    for output in outputs:
        print(f"wrote {escape_controls(output)}")
