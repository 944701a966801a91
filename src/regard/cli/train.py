"""`regard train SOURCE TARGET --out DIR`: train a translator from two text files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.shared_options import Device
from regard.errors import InputError
from regard.visible_text import escape_controls

if TYPE_CHECKING:
    from regard.training.train import Trained


def train(
    source: Annotated[
        str, typer.Argument(help="Sentences in the language to translate from, one a line; several files: A,B.")
    ],
    target: Annotated[
        str, typer.Argument(help="The translations of these sentences, line by line; as many files as SOURCE.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for the translator and its training.")],
    weights: Annotated[
        str | None,
        typer.Option(
            "--weights",
            help="For each corpus, how often an epoch uses each of its pairs: 1,0.3 = once, and 0.3 times.",
            show_default="1",
        ),
    ] = None,
    synthetic: Annotated[
        str | None,
        typer.Option(
            "--synthetic",
            help="The corpora whose sources were written by a machine, counted from 1: 2 or 2,3.",
            show_default="none",
        ),
    ] = None,
    dev_source: Annotated[
        Path | None,
        typer.Option(
            "--dev-source",
            help="Sentences for evaluations during the training.",
            show_default="some pairs of the corpus",
        ),
    ] = None,
    dev_target: Annotated[Path | None, typer.Option("--dev-target", help="The translations of --dev-source.")] = None,
    kind: Annotated[
        str | None,
        typer.Option("--kind", "-k", help="transformer, or recurrent (with attention).", show_default="transformer"),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            "--preset", "-p", help="tiny, small, base or big.", show_default="by the size of the corpus and the device"
        ),
    ] = None,
    start_from: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="The folder of a translator or Marian model to train further.",
            show_default="a new translator",
        ),
    ] = None,
    vocabulary: Annotated[
        str | None,
        typer.Option(
            "--vocabulary",
            help="Your own SentencePiece model, or one for each language: SOURCE,TARGET.",
            show_default="made from the texts",
        ),
    ] = None,
    config: Annotated[Path | None, typer.Option("--config", "-c", help="A TOML file of settings.")] = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", "-s", help="One setting: section.name=value; may be repeated.")
    ] = None,
    device: Device = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress.")] = False,
) -> None:
    """Train a translator from two text files.

    The texts are cleaned and divided into subwords, and some pairs are held out for evaluations. Model, batch size and
    learning rate are chosen by the size of the corpus and the device. From the first evaluation on, the folder contains
    the best translator so far. Ctrl-C stops and saves; the same command resumes the training, also after a crash.

    [bold]Examples[/bold]

    \b
      regard train train.en train.ko --out en-ko
      regard train train.en train.ko --out en-ko --kind recurrent
      regard train train.en train.de --out en-de \\
          --dev-source val.en --dev-target val.de \\
          --set training.seed=3 --set model.d_model=128
      regard train real.en,news.en real.ko,news.ko --out en-ko \\
          --weights 1,0.3 --synthetic 2
      regard train medical.en medical.de --out medical --from en-de
      regard train medical.en medical.de --out medical --from opus-mt-en-de
      regard train train.en train.ko --out en-ko --vocabulary own.model

    \b
    [bold]Several devices or machines[/bold]: the same command with a launcher in front
      torchrun --nproc-per-node 2 $(which regard) train …
      torchrun --nnodes 2 --node-rank 0 --master-addr 10.0.0.1 \\
          $(which regard) train …        (the other machine: --node-rank 1)
      accelerate launch --multi_gpu --num_processes 2 $(which regard) train …
      --set training.shard=true          for a model too large for one device

    \b
    [bold]Settings[/bold], in a TOML file for --config or one by one with --set;
    the folder of a translator has the settings of its training in config.toml
      \\[data]        weights  synthetic  dev_pairs  max_tokens  max_ratio
      \\[vocabulary]  file  n_tokens  joint  coverage  byte_fallback
                    placeholders  bpe_dropout
      \\[model]       kind  preset  start_from  d_model  n_layers  dropout …
      \\[training]    seed  batch_tokens  accumulate  learning_rate  schedule
                    warmup_steps  label_smoothing  r_drop  clip_norm  weight_decay
                    max_steps  max_minutes  precision  shard
      \\[evaluation]  every_steps  pairs  metric  keep  patience  average
                    log_steps  save_minutes
    """
    from regard.cli.progress import spinner

    with spinner("loading torch"):
        from regard.training.settings.settings_file import read_config
        from regard.training.store.training_folder import stored_config
        from regard.training.train import train as run
        from regard.training.watcher import Terminal, Watcher

        options: dict[str, dict[str, Any]] = {
            "data": {
                "weights": numbers("--weights", weights, float, "1,0.3"),
                "synthetic": numbers("--synthetic", synthetic, int, "2,3"),
                "dev_source": dev_source and str(dev_source),
                "dev_target": dev_target and str(dev_target),
            },
            "vocabulary": {"file": vocabulary},
            "model": {"kind": kind, "preset": preset, "start_from": start_from and str(start_from)},
        }
        settings = read_config(config, changes or [], options, stored_config(out))
    with Watcher() if quiet else Terminal() as watcher:
        trained = run(source, target, out, settings, device=device, watcher=watcher)
    if trained.is_main:
        print_result(trained)
    if trained.reason is None:  # Ctrl-C stopped the training before its end
        raise typer.Exit(130)


def numbers(
    option: str, text: str | None, kind: type[int] | type[float], example: str
) -> tuple[int | float, ...] | None:
    """Parse the value of an option such as --weights 1,0.3; None = it is not given. Messages show `example`."""
    if text is None:
        return None
    try:
        return tuple(kind(number) for number in text.split(","))
    except ValueError as error:
        raise InputError(f"{option} {text}: write numbers with commas between, such as {option} {example}.") from error


def print_result(trained: "Trained") -> None:
    """Print how the training ended: the best evaluation, and the evaluation of the saved parameters if it differs.

    It differs if evaluation.keep is "last": then the last parameters are saved, not the best.
    """
    if trained.reason is None:
        print(f"stopped at step {trained.step:,} and saved; the same command continues from there")
        return
    print(f"trained     {trained.step:,} steps: {trained.reason}")
    if trained.best is not None:
        print(f"best        {trained.best.summary()}")
    if trained.kept is not None and trained.kept != trained.best:
        print(f"saved       {trained.kept.summary()}")
    print(f"translator  {escape_controls(trained.folder)}")
    print(f"\nnow         echo '…' | regard translate {escape_controls(trained.folder)}")
