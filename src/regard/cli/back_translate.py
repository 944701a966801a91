"""`regard back-translate DIR TEXT SOURCE TARGET`: make synthetic sentence pairs from text in the target language."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.search_options import Seed, Temperature, TopK, TopP, option_name, search_from_options
from regard.cli.shared_options import Device, Int8
from regard.errors import InputError, counted
from regard.visible_text import escape_controls

if TYPE_CHECKING:
    from regard.training.back_translation import BackTranslation, Counts


def back_translate(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of a translator from the target to the source language.")
    ],
    text: Annotated[Path, typer.Argument(help="Text in the target language, one sentence a line.")],
    source: Annotated[Path, typer.Argument(help="The file to write: translations of the lines.")],
    target: Annotated[
        Path, typer.Argument(help="The file to write: the lines of TEXT that were translated, unchanged.")
    ],
    greedy: Annotated[bool, typer.Option("--greedy", help="Greedy search instead of sampling.")] = False,
    beam: Annotated[
        int | None, typer.Option("--beam", "-b", help="Beam search with this many hypotheses instead of sampling.")
    ] = None,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    seed: Seed = None,
    int8: Int8 = False,
    device: Device = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress.")] = False,
) -> None:
    """Make synthetic sentence pairs from text of the target language.

    A translator from the target to the source language translates each line of TEXT by sampling. The translations are
    written to SOURCE, the lines to TARGET. Lines that are empty or too long, and lines whose translation was cut or has
    unknown pieces, are left out and counted. Ctrl-C stops and saves; the same command continues, also after a crash,
    and writes the same pairs as without the interruption.

    If the translator was trained on little text, its samples are poor: --top-k 10 or --beam 5 gives better sources. In
    the training that uses the pairs, --synthetic 2 says that the second corpus has synthetic sources.

    [bold]Examples[/bold]

    \b
      regard train train.ko train.en --out ko-en
      regard back-translate ko-en news.ko synthetic.en synthetic.ko
      regard train train.en,synthetic.en train.ko,synthetic.ko --synthetic 2 \\
          --out en-ko
    """
    from regard.cli.progress import spinner

    sampling_options = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    check_options(greedy, beam, sampling_options)
    with spinner("loading torch"):
        from regard.training.back_translation import BackTranslation
        from regard.training.watcher import Terminal, Watcher

        sample = not greedy and beam is None
        search = search_from_options(greedy, sample, {"size": beam}, sampling_options)
    task = BackTranslation(translator=folder, text=text, source=source, target=target, search=search, int8=int8)
    with Watcher() if quiet else Terminal() as watcher:
        counts = task.run(device, watcher)
    if counts is None:
        print("stopped and saved; the same command continues from there")
        raise typer.Exit(130)
    print_counts(task, counts)


def check_options(greedy: bool, beam: int | None, sampling_options: dict[str, Any]) -> None:
    """Raise InputError if the options choose more than one search; in `sampling_options`, None = not given."""
    is_given = {"--greedy": greedy, "--beam": beam is not None}
    is_given |= {option_name(name): value is not None for name, value in sampling_options.items()}
    given = [option for option, given_by_user in is_given.items() if given_by_user]
    if len(given) > 1 and (greedy or beam is not None):  # options of sampling go together
        raise InputError(f"got {' and '.join(given)}; a search is --greedy, or --beam, or sampling with its options.")


def print_counts(task: "BackTranslation", counts: "Counts") -> None:
    reasons = {
        "empty": counts.empty,
        "too long": counts.over_long,
        "whose translation was cut": counts.cut,
        "with unknown pieces": counts.unknown,
    }
    left_out = ", ".join(f"{number:,} {name}" for name, number in reasons.items() if number)
    source, target = escape_controls(task.source), escape_controls(task.target)
    print(f"pairs       {counts.pairs:,} of {counts.lines:,} lines")
    if left_out:
        print(f"left out    {left_out}")
    if counts.unlike:
        question = "; is this the right translator for them?" if 2 * counts.unlike > counts.lines else ""
        print(f"remark      {counted(counts.unlike, 'line')} unlike the training texts of {task.translator}{question}")
    print(f"sources     {source}")
    print(f"targets     {target}")
    print(f"\nnow         regard train …,{source} …,{target} --synthetic 2 --out …")
