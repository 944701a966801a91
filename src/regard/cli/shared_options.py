"""Options that several verbs share."""

from typing import Annotated

import typer

Token = Annotated[
    str | None,
    typer.Option("--token", "-t", help="The query token: its text, or it:2 for the second `it`."),
]
HeadName = Annotated[
    str | None,
    typer.Option(
        "--head",
        help='The head, by layer and head counted from 0: L3H1; L3average for a mean; "encoder L3H1" where there '
        "are several kinds.",
        show_default="a telling one",
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
    typer.Option("--target", help="The text on the decoder's side; for encoder-decoders only."),
]
Device = Annotated[
    str | None,
    typer.Option("--device", help="cpu, cuda or mps; cuda:1 for the second.", show_default="the fastest there is"),
]
Words = Annotated[
    bool,
    typer.Option("--words", help="Join the pieces of each word: weights on them are added, weights of them averaged."),
]
Span = Annotated[
    list[str] | None,
    typer.Option("--span", help='Join these words too, as if they were one: --span "Eiffel Tower". May be repeated.'),
]
Truncate = Annotated[
    bool,
    typer.Option("--truncate", help="Read the beginning of a text that is too long for the model."),
]
Host = Annotated[
    str,
    typer.Option("--host", help="The address to listen on; others than this machine's need the token that is printed."),
]
