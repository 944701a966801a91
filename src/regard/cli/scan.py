"""`regard scan FILE`: show what every head of a model attends to in a file of texts."""

from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.remarks import print_remark, remark_on_fonts
from regard.cli.written_files import checked_outputs, print_written
from regard.errors import InputError, counted
from regard.visible_text import escape_controls

if TYPE_CHECKING:
    from regard.tracing.scan import Scan

SAVE_SECONDS = 20
"""The seconds between two saves of unfinished results with --out; the same command continues from the last save."""


def scan(
    file: Annotated[Path, typer.Argument(help="A file with a text on each line; - reads standard input.")],
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="A Hugging Face model, by name or folder.", show_default="MiniLM"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Write a table of the heads: .csv or .parquet. The same command continues a stopped scan."
        ),
    ] = None,
    png: Annotated[Path | None, typer.Option("--png", help="Write a picture of what the heads attend to.")] = None,
    svg: Annotated[Path | None, typer.Option("--svg", help="Write an SVG picture.")] = None,
) -> None:
    """Scan a file of texts: how much attention each head gives to the previous token, the first token, and so on.

    Blank lines are left out. Of a text that is too long for the model, only the beginning is read. A remark says how
    many lines are blank, and how many texts are too long.

    [bold]Examples[/bold]

    \b
      regard scan letters.txt
      regard scan letters.txt --model openai-community/gpt2 \\
          --out heads.parquet --png heads.png
    """
    from regard.views.roles_table import check_table_path, write_table

    if out:
        check_table_path(out)
    outputs = checked_outputs(inputs=[file], table=out, png=png, svg=svg)
    progress_file = None if out is None else out.with_name(f"{out.name}.progress")
    checked_outputs(inputs=[file], progress=progress_file)  # not among `outputs`: it is deleted at the end
    result = scan_file(model, file, progress_file)
    from regard.tracing.tokens.readable_tokens import note_on_tokens
    from regard.views.terminal.roles import show

    roles = result.roles()  # for each head, its attention to the previous token, the first token, and so on
    if n_blank := result.n_lines - result.n_texts:
        print_remark(f"{counted(n_blank, 'blank line')} left out.")
    if result.n_truncated:
        print_remark(f"{counted(result.n_truncated, 'text')} longer than the model reads; only the beginning was used.")
    print_remark(note_on_tokens(result.model, result.n_known, result.n_words))
    texts, tokens = counted(result.n_texts, "text"), counted(result.n_tokens, "token")
    title = f"{escape_controls(result.model)} · {texts} · {tokens}"
    if out:
        write_table(roles, out)
    for picture in (png, svg):
        if picture:
            from regard.views.picture.roles import write_figure

            write_figure(roles, picture, title)
    if png or svg:
        remark_on_fonts(title)
    show(roles, title)
    print_written(outputs)


def scan_file(model: str | None, file: Path, progress: Path | None) -> "Scan":
    """Let the model read a file line by line; a stopped scan continues from the file `progress` (None = not saved)."""
    from regard.cli.progress import line_progress, spinner
    from regard.cli.text_lines import open_text, read_lines, standard_input
    from regard.translation.translator_folder import holds_translator

    if model is not None and holds_translator(Path(model)):
        raise InputError(f"{model} is a translator, which reads two texts; scan takes a model that reads one text.")
    path = None if str(file) == "-" else file
    with ExitStack() as stack:
        stream = standard_input() if path is None else open_text(stack, path)
        with spinner("loading the model"):
            from regard.tracing.model_loading import load
            from regard.tracing.scan import Scan

            loaded = load(model)
        if loaded.model.config.is_encoder_decoder:
            raise InputError(
                f"{loaded.name} is an encoder-decoder, which reads two texts; scan takes a model that reads one text."
            )
        lines = chain.from_iterable(read_lines(stream, path))
        unfinished = None if progress is None else Scan.load(progress, loaded.name)
        result = unfinished or Scan(loaded.name)
        result.skip(lines)  # those that the unfinished scan has read
        if result.n_lines:
            print_remark(f"continuing after line {result.n_lines:,}")
        count = stack.enter_context(line_progress(stream, "scanning", None))
        count(result.n_lines)
        last_save = monotonic()
        try:
            for _ in result.read(loaded, lines):  # yields after each line
                count(1)
                if progress and monotonic() - last_save > SAVE_SECONDS:
                    result.save(progress)
                    last_save = monotonic()
        except (KeyboardInterrupt, InputError):
            if progress:
                result.save(progress)
                print_remark(f"{counted(result.n_lines, 'line')} saved; the same command continues")
            raise
    if progress:
        progress.unlink(missing_ok=True)
    return result
