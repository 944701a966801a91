"""Command-line options that several subcommands of `regard` share."""

from pathlib import Path
from typing import Annotated

import typer

TranslatorFolder = Annotated[
    Path, typer.Argument(metavar="DIR", help="The folder of a translator, written by regard train.")
]
Token = Annotated[
    str | None, typer.Option("--token", "-t", help="The query token: its text, or it:2 for the second token `it`.")
]
HeadName = Annotated[
    str | None,
    typer.Option(
        "--head",
        help='The head: L3H1 = layer 3, head 1, counted from 0; L3average = the mean of layer 3; "encoder L3H1" if the '
        "model has several kinds of attention.",
        show_default="chosen by regard",
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        help="A Hugging Face model, by name or folder, or the folder of a translator.",
        show_default="MiniLM",
    ),
]
Target = Annotated[
    str | None,
    typer.Option(
        "--target", help="Of an encoder-decoder model: the text that the decoder reads, such as a translation."
    ),
]
Device = Annotated[
    str | None,
    typer.Option("--device", help="cpu, cuda or mps; cuda:1 = the second GPU.", show_default="the fastest available"),
]
Int8 = Annotated[
    bool,
    typer.Option(
        "--int8", help="On a CPU, compute with 8-bit integers as weights: faster, but scores differ slightly."
    ),
]
Words = Annotated[
    bool,
    typer.Option(
        "--words", help="Join the tokens of each word: the weights on them are summed, and their own weights averaged."
    ),
]
Span = Annotated[
    list[str] | None,
    typer.Option("--span", help='Join these words into one: --span "Eiffel Tower"; may be repeated.'),
]
Truncate = Annotated[
    bool, typer.Option("--truncate", help="Of a text that is too long for the model, read only the beginning.")
]
Host = Annotated[
    str,
    typer.Option(
        "--host",
        help="The address to listen on. If other machines can reach it, requests need the token that is printed.",
    ),
]
Port = Annotated[int, typer.Option("--port", help="The port to listen on; 0 = any free port.", min=0, max=65535)]
