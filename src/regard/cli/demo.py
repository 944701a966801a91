"""`regard demo`: the main job from nothing, on a real model and a real sentence."""

from pathlib import Path
from typing import Annotated

import typer

SNAKE = "The snake is very dangerous because it has a venom."


def demo(
    out: Annotated[Path, typer.Option("--out", help="The folder for the picture and the page.")] = Path("demo"),
) -> None:
    """Show what regard does: attention by hand, then a real model on a real sentence.

    First the numbers of a worked example, matrix by matrix. Then the sentence "The snake is very dangerous because it
    has a venom." in MiniLM: whom does `it` look at? In the terminal, as a picture, and as a page in the folder demo.

    [bold]Example[/bold]

    \b
      regard demo --out ~/attention
    """
    from rich.console import Console

    from regard.cli.work import working
    from regard.errors import InputError

    console = Console(highlight=False)
    with working("loading torch"):
        from regard.tracing.worked import example
        from regard.views.matrices import show as show_matrices
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {out}: {error.strerror}; name another with --out.") from error

    console.rule("1  attention by hand", align="left")
    console.print()
    show_matrices(example("self-attention"), console)

    console.print()
    console.rule("2  whom does `it` look at?", align="left")
    console.print()
    with working("running MiniLM"):
        from regard.tracing.models import load
        from regard.tracing.trace import trace

        loaded = load()
        seen = trace(loaded.model, SNAKE, tokenizer=loaded.tokenizer)
    seen.show(token="it", head="L3H1")
    check = seen.check()
    console.print(
        f"\nchecked: recomputed from the weights, every context is within {check.max_error:.1e} "
        f"of what the {', '.join(check.backends)} kernel returned (largest number {check.magnitude:.1f})"
    )
    with working("drawing"):
        picture = seen.figure(out / "snake.png", token="it", head="L3H1")
        page = seen.html(out / "snake.html", token="it", head="L3H1")
    console.print()
    console.rule("3  to keep", align="left")
    print(f"picture  {picture.resolve()}")
    print(f"page     {page.resolve()}    open it in any browser; it needs no network")
