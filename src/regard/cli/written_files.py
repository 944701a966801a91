"""Before a subcommand begins its work, check the files that it will write; after the work, print their names."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from regard.errors import InputError
from regard.visible_text import escape_controls

STDOUT = Path("-")
"""The value of --json with which a subcommand writes JSON, and nothing else, to standard output."""

NEVER_READ = {".html", ".png", ".svg", ".pdf", ".csv", ".parquet"}
"""The endings of pages, pictures and tables, which are never a part of a model."""


def checked_outputs(inputs: Iterable[Path | str | None] = (), **options: Path | None) -> list[Path]:
    """Return the files that a subcommand writes, without "-" (stdout).

    InputError is raised unless every file can be written, is named once, and does not replace an input.

    Args:
        inputs: the files that the subcommand reads, and names or folders of models; None = an input that is not given.
        options: the file that each option names, such as png=Path("a.png"), which must end in .png; None = not given.
    """
    from regard.views.output_file import check_writable

    existing_inputs = [Path(path) for path in inputs if path is not None and Path(path).exists()]
    outputs = list[Path]()
    for option, path in options.items():
        if path is None or (option == "json" and path == STDOUT):
            continue
        if option in ("png", "svg", "pdf") and path.suffix.lower() != f".{option}":
            raise InputError(f"--{option} writes a {option.upper()} file; {path} does not end in .{option}.")
        check_writable(path)
        if path.exists() and any(is_part_of(path, existing) for existing in existing_inputs):
            raise InputError(f"cannot write {path}: it is an input of this command; name another file.")
        is_file = path.is_file() or not path.exists()  # a device such as /dev/null may be named twice
        if is_file and path.resolve() in [earlier.resolve() for earlier in outputs]:
            raise InputError(f"cannot write {path}: two options name it; name another file for one of them.")
        outputs.append(path)
    return outputs


def is_part_of(output: Path, source: Path) -> bool:
    """Return whether an existing file is the input `source`, or a part of the model in the folder `source`.

    A page, a picture or a table in the folder of a model is not part of the model.
    """
    if not source.is_dir():
        return output.samefile(source)
    if output.suffix.lower() in NEVER_READ:
        return False
    # In Hugging Face's cache, a model's folder links to files elsewhere, so `output` is compared with each linked file.
    is_linked = any(output.samefile(path) for path in source.iterdir() if path.exists())
    return is_linked or output.resolve().is_relative_to(source.resolve())


def write_json(path: Path, document: str) -> None:
    from regard.views.output_file import write_output

    if path == STDOUT:
        sys.stdout.write(document)
    else:
        write_output(path, document)


def print_written(outputs: Sequence[Path]) -> None:
    if outputs:
        print()
    for output in outputs:
        print(f"wrote {escape_controls(output)}")
