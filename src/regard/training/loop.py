"""The training loop: optimiser steps, with a log entry, an evaluation or a checkpoint at regular steps.

A `Run` has the objects that stay the same throughout the loop. A `TrainingState` has the numbers that change. A
checkpoint stores the TrainingState, the parameters and the optimiser: nothing else is needed to resume.
"""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from regard.errors import InputError
from regard.text.batches import Batch, Batches
from regard.text.keyed_random import seed_of
from regard.training.evaluator import Evaluator
from regard.training.learning_rate import Schedule
from regard.training.loss import TeacherForced
from regard.training.processes.process_group import Processes
from regard.training.settings.settled_config import SettledConfig
from regard.training.stopping import StopHandler
from regard.training.store.checkpoint import files_needed, keep_latest, save_checkpoint
from regard.training.store.snapshots import keep_only, write_snapshot
from regard.training.store.training_log import Log
from regard.training.training_state import Position, TrainingState
from regard.training.watcher import Watcher

N_CHECKPOINTS = 2
"""The number of latest checkpoints to keep: if the latest is damaged, training resumes from the one before it."""

DECISION_STEPS = 10
"""Several processes decide together whether to stop or to save a checkpoint, at the steps divisible by this number."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """The objects that the training loop works with.

    Attributes:
        folder: the folder of the training.
        processes: the group of processes that train together.
        module: the model with its loss, wrapped for training in several processes.
        schedule: a function from a step to the factor that multiplies the peak learning rate.
        evaluator, log: None except in the main process.
    """

    config: SettledConfig
    folder: Path
    processes: Processes
    batches: Batches
    module: nn.Module
    optimiser: Optimizer
    schedule: Schedule
    evaluator: Evaluator | None
    log: Log | None
    watcher: Watcher

    @property
    def snapshots(self) -> Path:
        return self.folder / "snapshots"


def training_steps(batches: Batches, position: Position, accumulate: int) -> Iterator[tuple[list[Batch], Position]]:
    """Yield the batches of each step after `position`, and the position after the step; the steps never end.

    A step has `accumulate` batches; the last step of an epoch may have fewer.
    """
    while True:
        remaining = batches.epoch(position.epoch, start=position.batch)
        while step_batches := list(islice(remaining, accumulate)):
            position = replace(position, step=position.step + 1, batch=position.batch + len(step_batches))
            yield step_batches, position
        position = replace(position, epoch=position.epoch + 1, batch=0)


def rows_of_process(batch: Batch, rank: int, n: int, device: torch.device) -> tuple[list[Tensor], bool]:
    """Return the rows of a batch that process `rank` of n processes computes, and whether there are any.

    The process gets the rows rank, rank + n, rank + 2n, and so on: batches are sorted by length, so that all processes
    get sentences of similar lengths. A process without rows gets the first row: it must compute a loss as well, because
    all processes exchange gradients, but `train_step` multiplies this loss by 0.
    """
    has_rows = rank < len(batch.source)
    rows = slice(rank, None, n) if has_rows else slice(0, 1)
    tensors = [tensor[rows].to(device) for tensor in (batch.source, batch.lengths, batch.target, batch.expected)]
    return tensors, has_rows


def train_step(run: Run, batches: list[Batch], step: int) -> Tensor:
    """Take one optimiser step on the gradients of all `batches`; return the loss summed over this process's tokens.

    The loss of each batch, a sum over tokens, is divided by the number of target tokens of all batches. The gradient is
    then that of the mean loss over one large batch. The loss is also multiplied by the number of processes, because
    they exchange the mean of their gradients, not the sum. Steps are counted from 1.
    """
    n, rank, training = run.processes.n, run.processes.rank, run.config.training
    n_tokens = sum(batch.n_tokens for batch in batches)
    total_loss = torch.zeros((), device=run.processes.device)
    for i, batch in enumerate(batches):
        torch.manual_seed(seed_of(training.seed, step, i, rank))  # the same dropout after resuming
        tensors, has_rows = rows_of_process(batch, rank, n, run.processes.device)
        is_last = i == len(batches) - 1
        with run.processes.gradient_exchange(run.module, exchange=is_last):
            loss = run.module(*tensors) * float(has_rows)
            run.processes.backward(loss * (n / n_tokens))
        total_loss += loss.detach()
    run.processes.clip(run.module, training.clip_norm)
    for group in run.optimiser.param_groups:
        group["lr"] = training.learning_rate * run.schedule(step)
    run.optimiser.step()
    run.optimiser.zero_grad()
    return total_loss


class StepTotals:
    """The total loss, numbers of tokens and time of the steps since the last log entry.

    Args:
        earlier_seconds: the time that earlier runs of this training spent in the training loop.

    Attributes:
        loss: in nats; summed on the device, so that adding a step does not wait for the GPU.
        seconds: the time of the steps, without the time in `paused` blocks.
        n_expected: the number of target tokens to predict (labels).
        n_tokens: the number of source and target tokens.
    """

    def __init__(self, device: torch.device, earlier_seconds: float) -> None:
        self.earlier_seconds = earlier_seconds
        self.started_at = time.perf_counter()
        self.resumed_at = self.started_at  # the end of the last `paused` block
        self.loss = torch.zeros((), device=device)
        self.seconds, self.n_expected, self.n_tokens = 0.0, 0, 0

    @property
    def elapsed_seconds(self) -> float:
        return self.earlier_seconds + time.perf_counter() - self.started_at

    def add(self, loss: Tensor, batches: list[Batch]) -> None:
        self.loss += loss
        self.n_expected += sum(batch.n_tokens for batch in batches)
        self.n_tokens += sum(batch.n_tokens + int(batch.lengths.sum()) for batch in batches)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock of the steps during the with-block, so that evaluations do not reduce the logged speed."""
        self.seconds += time.perf_counter() - self.resumed_at
        yield
        self.resumed_at = time.perf_counter()

    def clear(self) -> None:
        self.loss.zero_()
        self.seconds, self.n_expected, self.n_tokens = 0.0, 0, 0


def train_on(run: Run, state: TrainingState) -> TrainingState:
    """Train from `state` until training is finished, or until SIGINT or SIGTERM arrives; return the last state."""
    if end_reason(run, state):
        return state
    training, evaluation = run.config.training, run.config.evaluation
    totals = StepTotals(run.processes.device, state.elapsed_seconds)
    saved_seconds = state.elapsed_seconds
    run.watcher.stepped(state.position.step, training.max_steps)
    with StopHandler(run.watcher.say) as handler:
        for batches, position in training_steps(run.batches, state.position, training.accumulate):
            step = position.step
            totals.add(train_step(run, batches, step), batches)
            run.watcher.stepped(step, training.max_steps)
            state = replace(state, position=position, elapsed_seconds=totals.elapsed_seconds)
            save_is_due = totals.elapsed_seconds - saved_seconds > 60 * evaluation.save_minutes
            time_is_over = run.processes.is_main and is_out_of_time(run, state)  # only one decides: clocks differ
            stop, save_is_due, time_is_over = any_process(run, step, handler.requested, save_is_due, time_is_over)
            evaluation_is_due = time_is_over or step >= training.max_steps or step % evaluation.every_steps == 0
            if not (stop or save_is_due or evaluation_is_due or step % evaluation.log_steps == 0):
                continue
            with totals.paused():
                log_progress(run, state, totals)
                state = evaluate(run, state) if evaluation_is_due else state
                if stop or save_is_due or evaluation_is_due:
                    saved_seconds = totals.elapsed_seconds
                    save(run, replace(state, elapsed_seconds=saved_seconds))
            if stop or time_is_over or end_reason_of_steps(run, state):
                break
    return replace(state, elapsed_seconds=run.processes.from_main(totals.elapsed_seconds))


def any_process(run: Run, step: int, *conditions: bool) -> list[bool]:
    """Return for each condition whether it is true in at least one process.

    Several processes exchange their conditions only every `DECISION_STEPS` steps, to save time; at all other steps
    every result is False.
    """
    if run.processes.n > 1 and step % DECISION_STEPS:
        return [False] * len(conditions)
    return run.processes.any(conditions)


def end_reason(run: Run, state: TrainingState) -> str | None:
    """Return the reason why training is finished, for a message; None = training continues."""
    reason = end_reason_of_steps(run, state)
    if reason is None and is_out_of_time(run, state):
        return f"its {run.config.training.max_minutes:g} minutes are over (training.max_minutes)"
    return reason


def end_reason_of_steps(run: Run, state: TrainingState) -> str | None:
    """Return why training ends at max_steps or by patience; None = by neither. All processes get the same result."""
    max_steps, patience = run.config.training.max_steps, run.config.evaluation.patience
    if state.position.step >= max_steps:
        return f"step {max_steps:,} was to be the last (training.max_steps)"
    if state.since_best >= patience:
        return f"{state.since_best} evaluations in a row were no better (evaluation.patience)"
    return None


def is_out_of_time(run: Run, state: TrainingState) -> bool:
    minutes = run.config.training.max_minutes
    return minutes is not None and state.elapsed_seconds >= 60 * minutes


def log_progress(run: Run, state: TrainingState, totals: StepTotals) -> None:
    """Log and show the mean loss and the speed of the steps since the last log entry, and reset `totals` to 0.

    Call this within `totals.paused()`, at whose beginning `totals.seconds` is brought up to date.
    """
    total_loss = float(run.processes.total(totals.loss))
    step, loss = state.position.step, total_loss / totals.n_expected
    if not math.isfinite(loss):
        raise InputError(
            f"the loss is {loss} at step {step:,}: training has diverged. Train into another folder "
            "with a lower training.learning_rate, a longer training.warmup_steps or a smaller training.clip_norm."
        )
    if run.log is not None:
        entry = {
            "step": step,
            "epoch": state.position.epoch,
            "loss_nats": loss,
            "learning_rate": run.config.training.learning_rate * run.schedule(step),
            "tokens_per_second": round(totals.n_tokens / totals.seconds),
            "elapsed_seconds": round(state.elapsed_seconds, 1),
        }
        run.log.add(entry)
        run.watcher.progress(entry, run.config.training.max_steps, seconds_left(run, state), state.best)
    totals.clear()


def seconds_left(run: Run, state: TrainingState) -> float:
    """Return the estimated seconds until training ends, at max_steps or max_minutes, whichever comes first."""
    training = run.config.training
    seconds_per_step = state.elapsed_seconds / state.position.step
    until_max_steps = (training.max_steps - state.position.step) * seconds_per_step
    until_max_minutes = math.inf if training.max_minutes is None else 60 * training.max_minutes - state.elapsed_seconds
    return max(min(until_max_steps, until_max_minutes), 0.0)


def evaluate(run: Run, state: TrainingState) -> TrainingState:
    """Evaluate the current parameters and the mean of the latest snapshots; return the training state afterwards.

    The parameters with the lower dev loss are written as the translator if evaluation.keep is "last", or if their
    result is the best so far. So the first evaluation always writes a translator.
    """
    parameters = run.processes.parameters(run.module)
    if run.evaluator is not None and run.log is not None:
        model_parameters = {name.removeprefix(TeacherForced.PREFIX): tensor for name, tensor in parameters.items()}
        newest = write_snapshot(run.snapshots, state.position.step, model_parameters)
        settings = run.config.evaluation
        snapshots = (*state.snapshots, newest)[-settings.average :]
        evaluation = run.evaluator.evaluate(run.snapshots, snapshots, state.position.step)
        state = replace(state.after_evaluation(evaluation.result, settings.metric, settings.keep), snapshots=snapshots)
        if state.kept == evaluation.result:
            run.evaluator.write_translator(run.folder, evaluation.result)
        entry = evaluation.entry(state)
        run.log.add(entry)
        run.watcher.evaluated(entry)
    # only the main process evaluates, but all processes compare `since_best` to evaluation.patience
    return replace(state, since_best=run.processes.from_main(state.since_best))


def save(run: Run, state: TrainingState) -> None:
    """Write a checkpoint; keep only the latest two, and the snapshots (files of parameters) that these two need."""
    tensors = {
        "model": run.processes.parameters(run.module),
        "optimiser": run.processes.optimiser_tensors(run.module, run.optimiser),
    }
    if run.processes.is_main:
        checkpoints = run.folder / "checkpoints"
        vocabularies = sorted((run.folder / "data").glob("*.spm"))  # row i of an embedding matrix is for piece i
        needed_files = [*vocabularies, *(run.snapshots / name for name in state.snapshots)]
        save_checkpoint(checkpoints, state.position.step, tensors, asdict(state), needed_files)
        keep_latest(checkpoints, N_CHECKPOINTS, state.position.step)
        keep_only(run.snapshots, files_needed(checkpoints))
    run.processes.wait()
