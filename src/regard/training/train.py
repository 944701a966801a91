"""Training a translator from two text files: everything around the loop.

DIR/training.json      marks the folder of a training, and has the checksums of its texts
DIR/config.toml        every setting, derived settings included
DIR/data/              the corpus as ids, and the vocabularies
DIR/checkpoints/       the checkpoints that training resumes from
DIR/snapshots/         the parameters of the latest evaluations
DIR/log.jsonl, DIR/tensorboard/
DIR/translator.json …  the translator: the best so far, or the last
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
from regard.training.data.prepare import Prepared, prepare
from regard.training.evaluator import Evaluator
from regard.training.learning_rate import named_schedule
from regard.training.loop import Run, end_reason, train_on
from regard.training.loss import TeacherForced
from regard.training.optimiser import make_optimiser
from regard.training.processes.process_group import Processes
from regard.training.settings.settle import default_precision, otherwise
from regard.training.settings.train_config import TrainConfig
from regard.training.store.checkpoint import latest_checkpoint
from regard.training.store.training_folder import claim, stored_config
from regard.training.store.training_log import Log
from regard.training.training_state import DevResult, Position, TrainingState
from regard.training.watcher import Watcher
from regard.translation.translator_folder import load_parameters, model_kinds


@dataclass(frozen=True, kw_only=True, slots=True)
class Trained:
    """The result of a training, or of a part of it if it was stopped."""

    folder: Path
    """The folder of the translator."""

    step: int
    best: DevResult | None
    kept: DevResult | None
    """The result of the translator; it differs from the best if evaluation.keep is last."""

    reason: str | None
    """The reason why training is over; None = it was stopped and can be resumed."""

    is_main: bool = True
    """Whether this process is the main one, which prints and writes."""


def train(
    source: str | Path,
    target: str | Path,
    out: str | Path,
    config: TrainConfig | None = None,
    *,
    device: str | None = None,
    watcher: Watcher | None = None,
) -> Trained:
    """Train a translator from two text files, or resume the training in a folder exactly where it was stopped.

    Args:
        source: a file of sentences, one a line.
        target: a file of their translations, line by line.
        out: the folder for the translator.
        config: the settings; a setting that is None follows from the size of the corpus and the device.
        device: cpu, cuda or mps; None = the fastest there is.
        watcher: receives the progress; None = nothing is shown.

    Raises:
        InputError: the files, the folder or the settings cannot be used.
    """
    config, out = config or TrainConfig(), Path(out)
    texts = text_files(Path(source), Path(target), config)
    place, stored = device_named(device), stored_config(out)
    precision = otherwise((stored or config).training.precision, default_precision(place))
    with ExitStack() as training, Processes.start(place, precision) as processes:
        watcher = watcher if watcher is not None and processes.is_main else Watcher()
        prepared = prepare_in_turns(out, texts, config, processes, watcher, training)
        run, state = set_up(out, prepared, processes, watcher)
        try:
            state = train_on(run, state)
        finally:
            if run.log is not None:
                run.log.close()
    reason = end_reason(run, state)
    return Trained(
        folder=out, step=state.position.step, best=state.best, kept=state.kept, reason=reason, is_main=processes.is_main
    )


def prepare_in_turns(
    out: Path,
    texts: dict[str, Path],
    config: TrainConfig,
    processes: Processes,
    watcher: Watcher,
    training: ExitStack,
) -> Prepared:
    """Prepare the data: the first process on each disk writes it, the others read it."""
    turns = (processes.is_main, processes.is_first_here and not processes.is_main, not processes.is_first_here)
    for turn in turns:
        if turn:
            claim(out, texts, training if processes.is_main else None)
            prepared = prepare(out, texts, config, processes.device, watcher)
        processes.wait()
    return prepared


def text_files(source: Path, target: Path, config: TrainConfig) -> dict[str, Path]:
    """Return the files of a training by their role: source, target, and maybe dev source and dev target.

    Raises:
        InputError: only one of the two files of dev pairs is given.
    """
    dev = config.data.dev_source, config.data.dev_target
    if dev == (None, None):
        return {"source": source, "target": target}
    if dev[0] is None or dev[1] is None:
        present, missing = ("source", "target") if dev[1] is None else ("target", "source")
        raise InputError(f"there is a dev {present} and no dev {missing}; give both: --dev-source and --dev-target.")
    return {"source": source, "target": target, "dev source": Path(dev[0]), "dev target": Path(dev[1])}


def set_up(out: Path, prepared: Prepared, processes: Processes, watcher: Watcher) -> tuple[Run, TrainingState]:
    """Create the model and the optimiser, and restore the latest checkpoint if there is one."""
    config, training = prepared.config, prepared.config.training
    torch.manual_seed(seed_of(training.seed))
    model = new_model(prepared)
    if prepared.start is not None:
        load_parameters(model, prepared.start)
    module = processes.wrap(TeacherForced(model, training.label_smoothing, training.r_drop), training.shard)
    optimiser = make_optimiser(module, training.learning_rate, training.weight_decay)
    state = restore_checkpoint(out, processes, module, optimiser, watcher)
    run = Run(
        config=config,
        folder=out,
        processes=processes,
        batches=prepared.batches,
        module=module,
        optimiser=optimiser,
        schedule=named_schedule(training.schedule, training.warmup_steps, training.max_steps),
        evaluator=make_evaluator(prepared, processes) if processes.is_main else None,
        log=Log(out, state.position.step) if processes.is_main else None,
        watcher=watcher,
    )
    return run, state


def new_model(prepared: Prepared) -> Any:
    """Return a model of the settings' kind and size with random parameters."""
    return model_kinds()[prepared.config.model.kind].model(prepared.model_config())


def restore_checkpoint(
    out: Path, processes: Processes, module: nn.Module, optimiser: Optimizer, watcher: Watcher
) -> TrainingState:
    """Restore parameters and optimiser from the latest checkpoint and return its state; without one, a new state."""
    checkpoint = latest_checkpoint(out / "checkpoints", watcher.say) if processes.is_main else None
    state = TrainingState() if checkpoint is None else TrainingState.from_json(checkpoint.state)
    at = state.position
    exists, step, epoch, batch, since_best = processes.from_main(
        [int(checkpoint is not None), at.step, at.epoch, at.batch, state.since_best]
    )
    (elapsed_seconds,) = processes.from_main([state.elapsed_seconds])
    if not exists:
        return state
    tensors = {} if checkpoint is None else checkpoint.tensors
    processes.restore(module, optimiser, tensors.get("model", {}), tensors.get("optimiser", {}))
    watcher.say(f"going on from step {step:,}")
    position = Position(step=step, epoch=epoch, batch=batch)
    return replace(state, position=position, since_best=since_best, elapsed_seconds=elapsed_seconds)


def make_evaluator(prepared: Prepared, processes: Processes) -> Evaluator:
    """Return an evaluator with a model of its own."""
    return Evaluator(
        model=new_model(prepared).to(processes.device).eval(),
        pairs=prepared.dev,
        source_vocabulary=prepared.source_vocabulary,
        target_vocabulary=prepared.target_vocabulary,
    )
