"""`regard site DIR`: a folder for any web server, in which the model runs in the reader's browser."""

from pathlib import Path
from typing import Annotated

import typer

from regard.visible_text import escape_controls


def site(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder to write; it must not exist yet, or be empty.")
    ],
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            help="A Hugging Face model, by name or folder: an encoder of text with BERT's tokenizer.",
            show_default="MiniLM",
        ),
    ] = None,
    runtime: Annotated[
        Path | None,
        typer.Option(
            "--runtime",
            help="ONNX Runtime for browsers: the file that npm pack onnxruntime-web writes, or that package's folder.",
            show_default="the one that regard carries",
        ),
    ] = None,
) -> None:
    """Write a folder for any web server, in which the model itself runs in the reader's browser.

    The page is that of regard explore: type a text, and the model reads it. No server runs the model, and the typed
    text stays in the browser. The folder takes about as many bytes as the model, and 5 MB. Before it is written, the
    exported model is compared with the model itself.

    [bold]Examples[/bold]

    \b
      regard site public
      python -m http.server --bind 127.0.0.1 --directory public
      regard site public --model BAAI/bge-small-en-v1.5
    """
    from regard.cli.progress import spinner

    with spinner("exporting the model and checking it"):
        from regard.site import write_site

        written = write_site(folder, model, runtime)
    shown = escape_controls(folder)
    print(f"checked {escape_controls(written.model)} in ONNX Runtime: at most {written.difference}")
    print(f"wrote   {shown} ({written.n_bytes / 1e6:.0f} MB)")
    print(f"\nnow     python -m http.server --bind 127.0.0.1 --directory {shown}")
