"""`regard compare MODEL MODEL TEXT`: show where the attention of two models to the same text differs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.remarks import letters_of, print_remark, remark_on_file_name, remark_on_fonts, remark_on_texts
from regard.cli.shared_options import Target, Truncate, Words
from regard.cli.written_files import STDOUT, checked_outputs, print_written, write_json
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.tracing.trace import Trace


def compare(
    model: Annotated[
        str,
        typer.Argument(
            help="A Hugging Face model, by name or folder; a translator's folder; or MiniLM, which is included."
        ),
    ],
    other: Annotated[str, typer.Argument(help="The model to compare it with.")],
    text: Annotated[str, typer.Argument(help="The text that both models read; - reads it from standard input.")],
    target: Target = None,
    at_most: Annotated[
        float | None,
        typer.Option(
            "--at-most",
            help="Up to this number, heads count as equal. If it is given, a larger difference gives exit status 1.",
            show_default="1e-3",
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write a page with the patterns of both models side by side.")
    ] = None,
    png: Annotated[Path | None, typer.Option("--png", help="Write a PNG picture.")] = None,
    svg: Annotated[Path | None, typer.Option("--svg", help="Write an SVG picture.")] = None,
    json: Annotated[
        Path | None, typer.Option("--json", help="Write the numbers as JSON; - writes only them, to stdout.")
    ] = None,
    words: Words = False,
    truncate: Truncate = False,
) -> None:
    """Compare the attention of two models to the same text, for example before and after training or quantisation.

    For every head and query, the difference is half the sum of the absolute differences of the attention weights: 0 =
    the same weights, 1 = no key has weight in both models.

    [bold]Examples[/bold]

    \b
      regard compare MiniLM ./tuned "The snake has a venom." --html compared.html
      regard compare checkpoint-1000 checkpoint-2000 "A dog runs." \\
          --at-most 1e-3 --json compared.json
    """
    from regard.cli.progress import spinner
    from regard.cli.text_lines import read_stdin
    from regard.tracing.comparison import compare as compare_traces
    from regard.views.json_text import comparison_json

    outputs = checked_outputs(inputs=[model, other], html=html, png=png, svg=svg, json=json)
    if at_most is not None and not 0 <= at_most <= 1:
        raise InputError(f"--at-most {at_most:g}: a difference of attention is from 0 to 1.")
    remark_on_file_name(text)
    text = read_stdin() if text == "-" else text
    with spinner("reading the text with both models"):
        traces = [trace_of(name, text, target, truncate) for name in (model, other)]
        if words:
            traces = [trace.words() for trace in traces]
        comparison = compare_traces(*traces, at_most=1e-3 if at_most is None else at_most)
    remark_on_texts(*traces)
    if html:
        comparison.html(html)
    for picture in (png, svg):
        if picture:
            comparison.figure(picture)
    if png or svg:
        remark_on_fonts(letters_of(*traces))
    if json:
        write_json(json, comparison_json(comparison))
    if json != STDOUT:
        comparison.show()
        print_written(outputs)
    has_difference = (
        comparison.first is not None
    )  # `first` is the first head and token that differ by more than at_most
    if at_most is not None and has_difference:
        head, token, distance = comparison.largest(1)[0]
        print_remark(f"{head} at {token}: {distance:.3g} > {at_most:g}")
        raise typer.Exit(1)


def trace_of(model: str, text: str, target: str | None, truncate: bool) -> "Trace":
    """Return the trace of a Hugging Face model, or of the translator in the folder `model`, while it reads a text."""
    from regard.translation.translator_folder import holds_translator

    if holds_translator(Path(model)):
        from regard.by_hand.translator_head import translate_or_score
        from regard.translation.translator import Translator

        return translate_or_score(Translator.load(model), text, target, truncate).trace
    from regard.tracing.run import trace

    return trace(model, text, target=target, truncate=truncate)
