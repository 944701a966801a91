"""`regard demo`: show attention by hand, the attention of a real model, and a translator trained from nothing."""

import sys
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.remarks import remark_on_fonts
from regard.errors import InputError, reason, require_packages
from regard.visible_text import escape_controls

if TYPE_CHECKING:
    from rich.console import Console

SNAKE = "The snake is very dangerous because it has a venom."

PAIRS, EVALUATION_PAIRS, STEPS = 6_000, 300, 600
"""The counts of training pairs, evaluation pairs and steps; training takes less than two minutes on two cores."""

PACKAGES = (
    "transformers", "accelerate", "filelock", "num2words", "sacrebleu", "safetensors", "sentencepiece", "tomli_w"
)  # fmt: skip


def demo(
    out: Annotated[Path, typer.Option("--out", help="The folder for all files that are written.")] = Path("demo"),
) -> None:
    """Show what regard does: attention by hand, a real model on a real sentence, a translator trained from nothing.

    First, a worked example is computed by hand, matrix by matrix. Then MiniLM reads "The snake is very dangerous
    because it has a venom.": which word does `it` attend to? Last, a small translator learns the names of numbers in
    Korean, and its attention is shown while it translates numbers that were not in its training text. Pictures, a
    page and the translator are written to the folder --out.

    [bold]Example[/bold]

    \b
      regard demo --out ~/attention
    """
    from rich.console import Console

    from regard.cli.progress import spinner

    require_packages(PACKAGES, "huggingface,translation")
    console = Console(highlight=False)
    with spinner("loading torch"):
        from regard.by_hand.work_out import worked_example
        from regard.views.terminal.matrices import show as show_matrices
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {out}: {reason(error)}; name another with --out.") from error

    console.rule("1  attention by hand", align="left")
    console.print()
    show_matrices(worked_example("self-attention"), console)

    console.print()
    console.rule("2  a real model: which word does “it” look at?", align="left")
    console.print()
    with spinner("running MiniLM"):
        from regard.tracing.model_loading import load
        from regard.tracing.run import trace

        loaded = load()
        traced = trace(loaded.model, SNAKE, tokenizer=loaded.tokenizer)
    traced.show(token="it", head="L3H1")
    check = traced.check()
    console.print(
        f"\nchecked: recomputed from the weights, every context is within {check.max_error:.1e} "
        f"of what the {', '.join(check.backends)} kernel returned (largest number {check.magnitude:.1f})"
    )
    with spinner("drawing"):
        picture = traced.figure(out / "snake.png", token="it", head="L3H1")
        page = traced.html(out / "snake.html", token="it", head="L3H1")
    console.print()
    console.rule("3  a translator, from two text files", align="left")
    console.print()
    alignment = train_number_translator(out, console)

    console.print()
    console.rule("4  to keep", align="left")
    print(f"picture     {escape_controls(picture.resolve())}")
    print(f"page        {escape_controls(page.resolve())}    open it in any browser; it needs no network")
    print(f"alignment   {escape_controls(alignment.resolve())}")
    command = "regard" if which("regard") else f"{sys.executable} -m regard"
    folder = escape_controls((out / "translator").resolve())
    print(f"translator  {folder}    echo 'forty-two' | {command} translate {folder}")


def train_number_translator(out: Path, console: "Console") -> Path:
    """Train a translator on names of numbers and print an alignment; return the path of the alignment's picture."""
    from regard.cli.progress import spinner

    with spinner("naming numbers"):
        from regard.text.sample import SPLITS, sample, write_sample
        from regard.training.settings.train_config import Evaluation, TrainConfig, Training
        from regard.training.train import train
        from regard.training.watcher import Terminal
        from regard.translation.translator import Translator
        from regard.views.alignment import alignment_table, write_alignment
        from regard.views.terminal.trace import shades_legend

        splits = sample("en", "ko", dict.fromkeys(SPLITS, EVALUATION_PAIRS) | {"train": PAIRS}, seed=7)
        numbers = out / "numbers"
        write_sample(numbers, splits, ("en", "ko"), replace=True)
    config = TrainConfig(
        training=Training(max_steps=STEPS, precision="float32"), evaluation=Evaluation(every_steps=150, pairs=100)
    )
    with Terminal() as watcher:
        train(numbers / "train.en", numbers / "train.ko", out / "translator", config, device="cpu", watcher=watcher)
    translations = Translator.load(out / "translator").translate([source for source, _ in splits["test"]])
    references = [target for _, target in splits["test"]]
    n_right = sum(
        translation.text == reference for translation, reference in zip(translations, references, strict=True)
    )
    console.print(f"\nnumbers it has never seen: {n_right} of {len(translations)} exactly right\n")
    longest = max(translations, key=lambda translation: len(translation.source_pieces))
    alignment = longest.alignment
    source, target = piece_labels(alignment.source_pieces), piece_labels(alignment.target_pieces)
    console.print("where each piece of a translation (row) looks in the English text (column)\n")
    console.print(alignment_table(source, target, alignment.piece_weights))
    console.print(f"  {shades_legend()}", style="dim")
    console.print(f"\n{longest.source} → {longest.text}")
    remark_on_fonts("".join([*source, *target, longest.text]))
    rule, picture = longest.translator.alignment_rule.caption, out / "alignment.png"
    return write_alignment(picture, source, target, alignment.piece_weights, title=longest.text, rule=rule)


def piece_labels(pieces: tuple[str, ...]) -> list[str]:
    """Return labels for pieces: their letters, ␣ for a single space, (end) for the end of the text."""
    return [piece.replace("▁", "") or "␣" for piece in pieces[:-1]] + ["(end)"]
