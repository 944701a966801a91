"""Command-line options that several subcommands of `regard` share."""

from typing import Annotated

import typer

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
    str | None, typer.Option("--target", help="The text that the decoder of an encoder-decoder model reads.")
]
Device = Annotated[
    str | None,
    typer.Option("--device", help="cpu, cuda or mps; cuda:1 = the second GPU.", show_default="the fastest available"),
]
Int8 = Annotated[
    bool,
    typer.Option(
        "--int8", help="Decode with 8-bit integers as weights, on the CPU: faster, with slightly other scores."
    ),
]
Words = Annotated[
    bool,
    typer.Option("--words", help="Join each word's tokens: the weights on them are added, weights from them averaged."),
]
Span = Annotated[
    list[str] | None,
    typer.Option("--span", help='Join these words as if they were one word: --span "Eiffel Tower". May be repeated.'),
]
Truncate = Annotated[
    bool, typer.Option("--truncate", help="Of a text that is too long for the model, read only the beginning.")
]
Host = Annotated[
    str,
    typer.Option(
        "--host", help="The address to listen on; if other machines reach it, requests need the printed token."
    ),
]
Port = Annotated[int, typer.Option("--port", help="The port to listen on; 0 = any free port.", min=0, max=65535)]
