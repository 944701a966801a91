"""Training a translator from two text files: everything around the loop.

DIR/training.json      that this is a training's folder, and of which files
DIR/config.toml        every setting, those that were derived too
DIR/data/              the corpus as ids, and the vocabularies
DIR/checkpoints/       where training goes on
DIR/snapshots/         the parameters of the latest evaluations
DIR/log.jsonl, DIR/tensorboard/
DIR/translator.json …  the translator that is kept: the best so far, or the last
"""

from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from regard.device import device_named
from regard.errors import InputError
from regard.text.keyed_random import seed_of
from regard.training.console import Watcher
from regard.training.data.prepare import Prepared, prepare
from regard.training.judge import Judge
from regard.training.loop import Run, reason_to_end, train_on
from regard.training.loss import TeacherForced
from regard.training.optimiser import make_optimiser
from regard.training.processes.processes import Processes
from regard.training.schedule import named_schedule
from regard.training.settings.config import TrainConfig
from regard.training.settings.recipes import default_precision
from regard.training.state import Judged, Position, State
from regard.training.store.checkpoint import latest_checkpoint
from regard.training.store.folder import claim, stored_config
from regard.training.store.log import Log
from regard.translation.translator_folder import load_parameters, model_kinds


@dataclass(frozen=True, kw_only=True, slots=True)
class Trained:
    """What a training came to."""

    folder: Path
    """Where the translator is."""

    step: int
    best: Judged | None
    kept: Judged | None
    """What the translator is worth; other than the best where the last is kept (evaluation.keep)."""

    reason: str | None
    """Why it is over; None = it was stopped and can go on."""

    is_main: bool = True
    """Whether this is the process that speaks, where several trained together."""


def train(
    source: str | Path,
    target: str | Path,
    out: str | Path,
    config: TrainConfig | None = None,
    *,
    device: str | None = None,
    watcher: Watcher | None = None,
) -> Trained:
    """Train a translator from two text files, or go on with the training in a folder.

    Args:
        source: sentences, one a line.
        target: their translations, line by line.
        out: the folder for the translator; a training that was stopped or killed there goes on exactly.
        config: what is not set follows from the size of the corpus and the device.
        device: cpu, cuda or mps; None = the fastest there is.
        watcher: who is told how it goes; None = nobody.

    Raises:
        InputError: the files, the folder or the settings cannot be used.
    """
    config, out = config or TrainConfig(), Path(out)
    texts = texts_of(Path(source), Path(target), config)
    place, stored = device_named(device), stored_config(out)
    precision = (stored or config).training.precision or default_precision(place)
    with ExitStack() as training, Processes.start(place, precision) as processes:
        watcher = watcher if watcher is not None and processes.is_main else Watcher()
        prepared = prepared_by_turns(out, texts, config, processes, watcher, training)
        run, state = begin(out, prepared, processes, watcher)
        try:
            state = train_on(run, state)
        finally:
            if run.log is not None:
                run.log.close()
    reason = reason_to_end(run, state)
    return Trained(
        folder=out, step=state.position.step, best=state.best, kept=state.kept, reason=reason, is_main=processes.is_main
    )


def prepared_by_turns(
    out: Path,
    texts: dict[str, Path],
    config: TrainConfig,
    processes: Processes,
    watcher: Watcher,
    training: ExitStack,
) -> Prepared:
    """What is trained on: whoever comes first on a disk makes it, the others find it made."""
    turns = (processes.is_main, processes.is_first_here and not processes.is_main, not processes.is_first_here)
    for turn in turns:
        if turn:
            claim(out, texts, training if processes.is_main else None)
            prepared = prepare(out, texts, config, processes.device, watcher)
        processes.wait()
    return prepared


def texts_of(source: Path, target: Path, config: TrainConfig) -> dict[str, Path]:
    """The texts of a training, by what they are.

    Raises:
        InputError: there is one half of the dev pairs only.
    """
    dev = config.data.dev_source, config.data.dev_target
    if dev == (None, None):
        return {"source": source, "target": target}
    if dev[0] is None or dev[1] is None:
        given, missing = ("source", "target") if dev[1] is None else ("target", "source")
        raise InputError(f"there is a dev {given} and no dev {missing}; give both: --dev-source and --dev-target.")
    return {"source": source, "target": target, "dev source": Path(dev[0]), "dev target": Path(dev[1])}


def begin(out: Path, prepared: Prepared, processes: Processes, watcher: Watcher) -> tuple[Run, State]:
    """What a training works with, and where it stands: at its start, or where its latest checkpoint was saved."""
    config = prepared.config
    torch.manual_seed(seed_of(config.training.seed))
    model = build(prepared)
    if prepared.start is not None:
        load_parameters(model, prepared.start)
    training = config.training
    module = processes.wrap(TeacherForced(model, training.label_smoothing, training.r_drop), training.shard)
    optimiser = make_optimiser(module, training.learning_rate or 0.0, training.weight_decay)
    state = restored(out, processes, module, optimiser, watcher)
    max_steps = training.max_steps or 1
    run = Run(
        config=config,
        folder=out,
        processes=processes,
        batches=prepared.batches,
        module=module,
        optimiser=optimiser,
        schedule=named_schedule(training.schedule or "constant", training.warmup_steps or 0, max_steps),
        max_steps=max_steps,
        judge=judge_of(prepared, processes) if processes.is_main else None,
        log=Log(out, state.position.step) if processes.is_main else None,
        watcher=watcher,
    )
    return run, state


def build(prepared: Prepared) -> Any:
    """A model of the settings' kind and size, newly drawn."""
    return model_kinds()[prepared.config.model.kind].model(prepared.model_config())


def restored(out: Path, processes: Processes, module: nn.Module, optimiser: Optimizer, watcher: Watcher) -> State:
    """Where the latest checkpoint stands, with its parameters and optimiser put back; the start where there is none."""
    found = latest_checkpoint(out / "checkpoints", watcher.say) if processes.is_main else None
    state = State() if found is None else State.from_json(found.state)
    at = state.position
    there, step, epoch, batch, since_best = processes.from_main(
        [int(found is not None), at.step, at.epoch, at.batch, state.since_best]
    )
    (elapsed_seconds,) = processes.from_main([state.elapsed_seconds])
    if not there:
        return state
    tensors = {} if found is None else found.tensors
    processes.restore(module, optimiser, tensors.get("model", {}), tensors.get("optimiser", {}))
    watcher.say(f"going on from step {step:,}")
    position = Position(step=step, epoch=epoch, batch=batch)
    return replace(state, position=position, since_best=since_best, elapsed_seconds=elapsed_seconds)


def judge_of(prepared: Prepared, processes: Processes) -> Judge:
    """The judge, with a model of its own."""
    return Judge(
        model=build(prepared).to(processes.device).eval(),
        pairs=prepared.dev,
        source_vocabulary=prepared.source_vocabulary,
        target_vocabulary=prepared.target_vocabulary,
    )
