"""`regard export DIR --to FORMAT --out OUT`: export a translator for another program."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.shared_options import TranslatorFolder
from regard.visible_text import escape_controls


def export(
    folder: TranslatorFolder,
    to: Annotated[str, typer.Option("--to", help="huggingface, ctranslate2 or onnx.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write; it must not exist yet.")],
    lines: Annotated[
        Path | None,
        typer.Option(
            "--lines",
            help="A file of sentences with which the export is checked.",
            show_default="random pieces of the vocabulary",
        ),
    ] = None,
) -> None:
    """Export a translator for another program, and check that the export translates the same.

    The translator and the export translate the same lines greedily, and the largest difference of their logits is
    printed. An export that differs by more than rounding errors is deleted.

    [bold]Examples[/bold]

    \b
      regard export en-ko --to huggingface --out en-ko-hf
      regard export en-ko --to ctranslate2 --out en-ko-ct2
      regard export en-ko --to onnx --out en-ko-onnx --lines test.en
    """
    from regard.cli.progress import spinner
    from regard.cli.text_lines import read_file_lines

    sentences = None if lines is None else read_file_lines(lines)
    with spinner(f"exporting to {to}"):
        from regard.export import export as write
        from regard.export import format_of_name

        export_format = format_of_name(to)
        parity = write(folder, to, out, sentences)
    print(f"checked {parity}")
    print(f"wrote   {escape_controls(out)}")
    print(f"\nnow     {export_format.usage.format(out=escape_controls(out))}")
