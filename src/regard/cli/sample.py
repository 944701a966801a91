"""`regard sample`: write sample parallel text of any size, without a download."""

from pathlib import Path
from typing import Annotated

import typer


def sample(
    source: Annotated[str, typer.Option("--source", "-s", help="The source language, a num2words code such as en.")],
    target: Annotated[str, typer.Option("--target", "-t", help="The target language, a num2words code such as ko.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for the files.")],
    pairs: Annotated[int, typer.Option("--pairs", "-n", min=1, help="The number of training pairs.")] = 6_000,
    dev: Annotated[int, typer.Option(min=1, help="The number of pairs for evaluations during the training.")] = 500,
    test: Annotated[int, typer.Option(min=1, help="The number of pairs for the final evaluation.")] = 500,
    seed: Annotated[int, typer.Option(help="The same seed gives the same files.")] = 1,
    below: Annotated[int, typer.Option(min=1, help="Every number is smaller than this.")] = 1_000_000,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
) -> None:
    """Write sample parallel text: the names of numbers in two languages.

    Numbers of 1, 2, 3, … digits are about equally frequent, as far as there are enough of them. No number occurs twice,
    so no test number is in the training text. Source and target are any two languages of num2words.

    [bold]Example[/bold]

    \b
      regard sample --source en --target ko --pairs 20000 --seed 7 --out numbers
      regard train numbers/train.en numbers/train.ko --out translator
    """
    from regard.cli.progress import spinner
    from regard.text.sample import SPLITS, write_sample
    from regard.text.sample import sample as draw

    with spinner("naming numbers"):
        splits = draw(source, target, dict(zip(SPLITS, (pairs, dev, test), strict=True)), seed=seed, below=below)
        files = write_sample(out, splits, (source, target), replace=force)
    for path in files:
        print(path)
