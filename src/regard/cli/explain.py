"""`regard explain`: show attention by hand, every matrix of every step."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.shared_options import HeadName, Model, Target, Token, Truncate
from regard.cli.written_files import STDOUT, checked_outputs, print_written, write_json
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.by_hand.example_inputs import ExampleInputs
    from regard.by_hand.worked_attention import WorkedAttention


def explain(
    file: Annotated[
        Path | None, typer.Argument(help="A TOML file of numbers.", show_default="the example self-attention")
    ] = None,
    example: Annotated[str | None, typer.Option("--example", "-e", help="A built-in example.")] = None,
    list_examples: Annotated[bool, typer.Option("--list", help="List the built-in examples.")] = False,
    text: Annotated[
        str | None,
        typer.Option("--text", help="Instead of a file of numbers, work out one head of a model that reads this text."),
    ] = None,
    head: HeadName = None,
    token: Token = None,
    model: Model = None,
    target: Target = None,
    truncate: Truncate = False,
    temperature: Annotated[
        float | None,
        typer.Option(
            "--temperature",
            help="Divide the scores by this; 0 = all weight on the largest score, shared if several are equal.",
        ),
    ] = None,
    mask: Annotated[str | None, typer.Option("--mask", help="causal: no token attends to later tokens.")] = None,
    digits: Annotated[
        int | None,
        typer.Option("--digits", help="The number of decimals shown.", show_default="4, or fewer in wide matrices"),
    ] = None,
    json: Annotated[
        Path | None,
        typer.Option("--json", help="Write all numbers with all digits; - writes only them, to stdout."),
    ] = None,
    every_matrix: Annotated[
        bool, typer.Option("--all", help="With --text, show every matrix of the head, not only the steps of one token.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Write a page that shows the computation step by step."),
    ] = None,
) -> None:
    """Show attention by hand: every matrix of every step, with its formula and its shape.

    With --text, one head of a model is worked out. Then only the steps of one token are shown, key by key; with --all,
    every matrix.

    \b
    [bold]Examples[/bold]
      regard explain
      regard explain --example multi-head
      regard explain snakes.toml --token it --temperature 0.5
      regard explain --head L3H1 --token it \\
        --text "The snake is very dangerous because it has a venom."
      regard explain --model en-de --head L2H0 --text "A dog runs." --all
      regard explain --example multi-head --html steps.html

    \b
    [bold]Your own numbers[/bold], in a TOML file
      tokens = ["The", "snake", "it"]   names of the rows of x; else x1, x2, …
      x   = [[1, 0], [0, 2], [1, 1]]    a row for each token
      W_q = [[1, 0], [0, 1]]            Q = x W_q; W_k and W_v are needed too
      b_q = [0, 1]                      added to Q; optional, as b_k and b_v are
      Q = …  K = …  V = …               in place of x, W_q, W_k and W_v
      memory = …  memory_tokens = …     where K and V come from, if not from x
      n_heads = 2  W_o = …              heads to split into; output parameters
      scale = 1.0                       factor of Q Kᵀ; else 1 / √d_k
      mask = "causal"                   or rows of true (may attend) and false
      temperature = 0.5                 what the scores are divided by
      title = "…"  source = "…"         a title; where the numbers come from
    """
    from regard.cli.progress import spinner

    if list_examples:
        print_examples()
        return
    check_options(file, example, text, {"--head": head, "--model": model, "--target": target}, digits)
    outputs = checked_outputs([file, model], html=html, json=json)
    with spinner("working it out"):
        from regard.by_hand.inputs_file import built_in_inputs, named_mask, read_inputs
        from regard.by_hand.work_out import work_out

        is_causal = mask is not None and named_mask(mask) == "causal"  # any other name raises InputError
        query: str | int | None = token
        if text is not None:
            inputs, query = inputs_from_model(model, text, head=head, token=token, target=target, truncate=truncate)
        elif file is not None:
            inputs = read_inputs(file)
        else:
            inputs = built_in_inputs(example or "self-attention")
        worked = work_out(inputs.changed(temperature=temperature, causal=is_causal), query)
    if html is not None:
        from regard.views.page.worked import write_worked_page

        write_worked_page(worked, html)
    if json is not None:
        from regard.by_hand.worked_json import worked_json

        write_json(json, worked_json(worked))
    if json != STDOUT:
        print_steps(worked, digits, every_matrix=text is None or every_matrix)
        print_written(outputs)


def print_steps(worked: "WorkedAttention", digits: int | None, every_matrix: bool) -> None:
    """Print a worked example of attention.

    Args:
        digits: the number of decimals of each number; None = 4, or fewer where a matrix is too wide.
        every_matrix: False = print only the steps of the query `worked.query`.
    """
    if every_matrix:
        from regard.views.terminal.matrices import show

        show(worked, digits=digits)
    else:
        from regard.views.terminal.query_steps import show_query

        show_query(worked, digits=digits)


def inputs_from_model(model: str | None, text: str, **options: Any) -> "tuple[ExampleInputs, int]":
    """Return the inputs of a worked example (one head of a model, while it reads a text), and the query's position.

    Args:
        model: the name or folder of a Hugging Face model, or the folder of a translator; None = MiniLM.
        options: further arguments of `model_inputs` or `translator_inputs`, such as the head and the query token.
    """
    from regard.translation.translator_folder import holds_translator

    if model is not None and holds_translator(Path(model)):
        from regard.by_hand.translator_head import translator_inputs
        from regard.translation.translator import Translator

        return translator_inputs(Translator.load(model), text, **options)
    from regard.by_hand.model_head import model_inputs

    return model_inputs(model, text, **options)


def print_examples() -> None:
    from regard.by_hand.examples import titles

    title_of = titles()
    longest = max(map(len, title_of))
    for name, title in title_of.items():
        print(f"{name:<{longest}}  {title}")


def check_options(
    file: Path | None, example: str | None, text: str | None, text_options: dict[str, str | None], digits: int | None
) -> None:
    """Raise InputError if options exclude each other, or if `text_options` are given without a text."""
    given = [name for name, value in ((str(file), file), ("--example", example), ("--text", text)) if value is not None]
    if len(given) > 1:
        raise InputError(f"got {' and '.join(given)}; give one of them: a file, --example or --text.")
    for option, value in text_options.items():
        if value is not None and text is None:
            raise InputError(f"{option} {value} belongs to a model; give the text that it reads with --text.")
    if digits is not None and not 0 <= digits <= 17:
        raise InputError(f"--digits {digits}: a number is shown with 0 to 17 decimals.")
