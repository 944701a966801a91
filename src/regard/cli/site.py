"""`regard site DIR`: write a static web site that runs the model in the reader's browser."""

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
            help="A Hugging Face model, by name or folder: an encoder such as BERT, or a language model such as GPT-2.",
            show_default="MiniLM, or none if there is a translator",
        ),
    ] = None,
    translator: Annotated[
        Path | None,
        typer.Option("--translator", help="The folder of a translator, which translates what the reader types."),
    ] = None,
    text: Annotated[
        str | None, typer.Option("--text", help="The text that the page shows first.", show_default=False)
    ] = None,
    runtime: Annotated[
        Path | None,
        typer.Option(
            "--runtime",
            help="ONNX Runtime for browsers: the file that npm pack onnxruntime-web writes, or that package's folder.",
            show_default="included in regard",
        ),
    ] = None,
    course: Annotated[
        bool,
        typer.Option(
            "--course/--no-course", help="Write the course of regard learn too, with MiniLM, which its lessons need."
        ),
    ] = True,
    int8: Annotated[
        bool,
        typer.Option("--int8", help="Store the parameters of --model in 8 bits: a quarter of the bytes, less exact."),
    ] = False,
) -> None:
    """Write a static web site: a folder for any web server, with a model that runs in the reader's browser.

    The page is that of regard explore: the model reads, continues or translates the text that the reader types. No
    server runs the model, and the typed text stays in the browser. The page links to the course of regard learn, which
    is written into the same folder. With MiniLM, the folder has 101 MB. Before the folder is written, the exported
    model is compared with the original; if they differ, nothing is written.

    [bold]Examples[/bold]

    \b
      regard site public
      python -m http.server --bind 127.0.0.1 --directory public
      regard site public --model BAAI/bge-small-en-v1.5
      regard site public --model openai-community/gpt2
      regard site public --translator en-ko --text "forty-two and seven"
      regard site public --model MiniLM --translator en-ko
    """
    from regard.cli.progress import spinner

    with spinner("exporting the model and checking it"):
        from regard.site import write_site
        from regard.site.folder import FIRST_TEXT

        first = FIRST_TEXT if text is None else text
        written = write_site(folder, model, runtime, translator=translator, text=first, course=course, int8=int8)
    folder_name = escape_controls(folder)
    for exported in written.models:
        print(f"checked {escape_controls(exported.name)} in ONNX Runtime: {exported.report}")
    print(f"wrote   {folder_name} ({written.n_bytes / 1e6:.0f} MB)")
    print(f"\nnow     python -m http.server --bind 127.0.0.1 --directory {folder_name}")
