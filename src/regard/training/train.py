"""Training a translator from two text files: `train` prepares the data, builds the model and runs the training loop.

`train` writes these files to the folder DIR:

DIR/training.json      marks DIR as the folder of a training; contains the checksums of the training texts
DIR/config.toml        every setting, including those derived from the corpus and the device
DIR/data/              the vocabularies, and the training and dev sentence pairs as token ids
DIR/checkpoints/       parameters, optimiser state and training state, from which training resumes
DIR/snapshots/         the model's parameters at each of the latest evaluations
DIR/log.jsonl, DIR/tensorboard/     losses and evaluations by step
DIR/translator.json …  the translator with the parameters that evaluation.keep chooses: the best so far, or the latest
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn
from torch.optim import Optimizer

from regard.device import device_named
from regard.errors import InputError, first_paragraph
from regard.text.keyed_random import seed_of
from regard.training.data.corpora import TextFiles, Texts, text_files
from regard.training.data.prepare import Prepared, load_written, preparation_group, write_missing
from regard.training.evaluator import DevPairs, Evaluator
from regard.training.learning_rate import named_schedule
from regard.training.loop import Run, end_reason, train_on
from regard.training.loss import TeacherForced
from regard.training.optimiser import make_optimiser
from regard.training.processes.process_group import Processes
from regard.training.settings.settle import default_precision, model_config, value_or_default
from regard.training.settings.train_config import TrainConfig
from regard.training.store.checkpoint import Checkpoint, latest_checkpoint
from regard.training.store.training_folder import claim, removed_if_refused, stored_config
from regard.training.store.training_log import Log
from regard.training.training_state import DevResult, TrainingState
from regard.training.watcher import Watcher
from regard.translation.training_texts import TrainingTexts
from regard.translation.translator_folder import holds_translator, load_parameters, model_kinds

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True, slots=True)
class Trained:
    """The outcome of a call of `train`.

    Attributes:
        step: the number of optimiser steps taken since the training began, in all runs together.
        best: the best evaluation on the dev set; None = no evaluation yet.
        kept: the evaluation of the translator's parameters: the best one, or the last one if evaluation.keep is "last".
        reason: why training ended, e.g. its last step is done; None = it was stopped early and can be resumed.
        is_main: whether this is the main process, the only one that prints and writes the translator.
    """

    folder: Path
    step: int
    best: DevResult | None
    kept: DevResult | None
    reason: str | None
    is_main: bool = True


def train(
    source: Texts,
    target: Texts,
    out: str | Path,
    config: TrainConfig | None = None,
    *,
    device: str | None = None,
    watcher: Watcher | None = None,
) -> Trained:
    """Train a translator from two text files, or resume the training in a folder exactly where it was stopped.

    Args:
        source: a text file with one sentence per line; or several files, one for each corpus.
        target: a text file whose line n is the translation of line n of `source`; as many files as `source` has.
        out: the folder for the translator and the files of the training; created if it does not exist.
        config: the settings; a setting that is None is derived from the size of the corpus and the device.
        device: cpu, cuda or mps; None = the fastest device available.
        watcher: an object whose methods are called with the progress; None = no progress is shown.

    Raises:
        InputError: a file cannot be read, the folder belongs to another training, a setting is not valid, or training
            diverges.
    """
    config, out = config or TrainConfig(), Path(out)
    texts = text_files(source, target, config.data)
    chosen_device, stored = device_named(device), stored_config(out)
    precision = value_or_default((stored or config).training.precision, default_precision(chosen_device))
    with ExitStack() as folder_lock, Processes.start(chosen_device, precision) as processes:
        watcher = watcher if watcher is not None and processes.is_main else Watcher()
        prepared = prepare_together(out, texts, config, processes, watcher, folder_lock)
        run, state = set_up(out, prepared, processes, watcher)
        try:
            state = train_on(run, state)
        finally:
            if run.log is not None:
                run.log.close()
    reason = end_reason(run, state)
    if reason is not None and run.evaluator is not None and holds_translator(out):
        measure_translator(out, run.evaluator.pairs, processes.device, watcher)
    return Trained(
        folder=out, step=state.position.step, best=state.best, kept=state.kept, reason=reason, is_main=processes.is_main
    )


def prepare_together(
    out: Path,
    texts: TextFiles,
    config: TrainConfig,
    processes: Processes,
    watcher: Watcher,
    folder_lock: ExitStack,
) -> Prepared:
    """Prepare the data in the first process of every machine; all processes then read it from the folder `out`.

    The machines that lack the data write it together: each encodes a part of the pairs (see `write_missing`). The main
    process locks the folder `out` until `folder_lock` closes.
    """
    is_new = not out.exists()
    in_turn(processes, lambda: claim(out, texts, folder_lock if processes.is_main else None))
    with removed_if_refused(out, is_new):
        is_writer = processes.is_first_on_machine
        # group 0: a process that writes nothing gets no share, but must call `share` too
        share = processes.share(preparation_group(out) if is_writer else 0)
        settled = write_missing(out, texts, config, processes.device, watcher, share) if is_writer else None
        processes.wait()
        return in_turn(processes, lambda: load_written(out, config, settled))


def in_turn(processes: Processes, action: Callable[[], Result]) -> Result:
    """Call `action` in one group of processes after the other; return the result in this process.

    The main process comes first, then the first process of every other machine, then all other processes. So the first
    process that uses a folder writes the files, and the others find them complete, even if machines share the folder.
    """
    is_main, is_first = processes.is_main, processes.is_first_on_machine
    for is_own_turn in (is_main, is_first and not is_main, not is_first):
        if is_own_turn:
            result = action()
        processes.wait()
    return result


def set_up(out: Path, prepared: Prepared, processes: Processes, watcher: Watcher) -> tuple[Run, TrainingState]:
    """Create the objects of the training loop; load the latest checkpoint, if any, into the model and the optimiser."""
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
    settings = prepared.config.model
    config = model_config(settings, len(prepared.source_vocabulary), len(prepared.target_vocabulary))
    return model_kinds()[settings.kind].model_class(config)


def restore_checkpoint(
    out: Path, processes: Processes, module: nn.Module, optimiser: Optimizer, watcher: Watcher
) -> TrainingState:
    """Load the latest checkpoint into `module` and `optimiser`; return its training state, or that of a new training.

    Only the main process reads the checkpoint; it sends the tensors and the state to the other processes.
    """
    checkpoint = latest_checkpoint(out / "checkpoints", watcher.say) if processes.is_main else None
    state = processes.from_main(None if checkpoint is None else state_in(checkpoint))
    if state is None:
        return TrainingState()
    tensors = {} if checkpoint is None else checkpoint.tensors
    processes.restore(module, optimiser, tensors.get("model", {}), tensors.get("optimiser", {}))
    watcher.say(f"resuming from step {state.position.step:,}")
    return state


def state_in(checkpoint: Checkpoint) -> TrainingState:
    try:
        return TrainingState.from_json(checkpoint.state)
    except (TypeError, ValueError, KeyError) as error:
        raise InputError(
            f"{checkpoint.folder} is damaged: its state.json is not what regard writes ({first_paragraph(error)}); "
            "delete that folder, and training resumes from the checkpoint before it."
        ) from error


def make_evaluator(prepared: Prepared, processes: Processes) -> Evaluator:
    """Return an evaluator with a model of its own, so that evaluations do not change the model in training."""
    return Evaluator(
        model=new_model(prepared).to(processes.device).eval(),
        pairs=prepared.dev,
        source_vocabulary=prepared.source_vocabulary,
        target_vocabulary=prepared.target_vocabulary,
        training_texts=TrainingTexts.of(prepared.batches.corpus, prepared.source_vocabulary),
        smoothing=prepared.config.training.label_smoothing,
    )


def measure_translator(folder: Path, pairs: DevPairs, device: torch.device, watcher: Watcher) -> None:
    """Measure the finished translator on the dev pairs and save the results in its folder, unless that was done before.

    The results are the alignment rule (it names the attention weights that align words), the limits for remarks on
    unusual texts (`UsualLimits`), and the expected chrF for each score (`Calibration`).
    """
    from regard.translation.translator import Translator

    translator = Translator.load(folder, device)
    if "calibration" in translator.extra:  # measured before
        return
    watcher.busy("choosing the attention that aligns words")
    translator = translator.with_chosen_rule(pairs.source_texts, pairs.target_texts)
    watcher.busy("calibrating the scores of translations")
    translator.calibrated(pairs.source_texts, pairs.target_texts).save(folder)
    rule = translator.alignment_rule
    unmeasured = "; they are unreliable: no target piece of the dev pairs depends on one source word"
    watcher.say(f"alignments come from {rule}{unmeasured if rule.agreement is None else ''}")
