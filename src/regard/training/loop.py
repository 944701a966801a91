"""The loop of training: batches, a step, and now and then a line of the log, an evaluation, a checkpoint.

Where it stands is a State that goes from step to step; what it works with is a Run. Nothing that the next step
depends on is kept anywhere else, so a checkpoint is the State, the parameters and the optimiser, and no more.
"""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from regard.errors import InputError
from regard.text.batches import Batch, Batches
from regard.text.keyed_random import seed_of
from regard.training.console import Standing, Watcher
from regard.training.judge import Judge
from regard.training.loss import TeacherForced
from regard.training.optimiser import set_learning_rate
from regard.training.processes.processes import Processes
from regard.training.schedule import Schedule
from regard.training.settings.config import TrainConfig
from regard.training.state import Position, State
from regard.training.stopping import Stopping
from regard.training.store.checkpoint import keep_latest, needed_beside, save_checkpoint
from regard.training.store.log import Log
from regard.training.store.snapshots import keep_only, write_snapshot

CHECKPOINTS = 2
"""How many are kept: should the latest be damaged, there is the one before."""

ASK_STEPS = 10
"""Steps from one time that several processes agree whether to stop or save to the next."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """What a training works with."""

    config: TrainConfig
    folder: Path
    processes: Processes
    batches: Batches
    module: nn.Module
    optimiser: Optimizer
    schedule: Schedule
    max_steps: int
    judge: Judge | None
    """Of the main process, as the log."""

    log: Log | None

    watcher: Watcher

    @property
    def checkpoints(self) -> Path:
        """Where they lie."""
        return self.folder / "checkpoints"

    @property
    def snapshots(self) -> Path:
        """Where the parameters of the latest evaluations lie."""
        return self.folder / "snapshots"

    @property
    def vocabularies(self) -> list[Path]:
        """The files that say what the tokens are that the parameters are of."""
        return sorted((self.folder / "data").glob("*.spm"))


def updates(batches: Batches, position: Position, accumulate: int) -> Iterator[tuple[list[Batch], Position]]:
    """The batches of every step from a position on, without end, and the position after the step.

    A pass over the corpus ends with a step, be it of fewer batches.
    """
    while True:
        group: list[Batch] = []
        step, taken = position.step, position.batch
        for batch in batches.epoch(position.epoch, start=position.batch):
            group.append(batch)
            if len(group) == accumulate:
                step, taken = step + 1, taken + accumulate
                yield group, Position(step=step, epoch=position.epoch, batch=taken)
                group = []
        if group:
            step, taken = step + 1, taken + len(group)
            yield group, Position(step=step, epoch=position.epoch, batch=taken)
        position = Position(step=step, epoch=position.epoch + 1)


def share(batch: Batch, rank: int, n: int, device: torch.device) -> tuple[list[Tensor], bool]:
    """A process's rows of a batch, every n-th, so that all have sentences of like lengths; and whether it has any.

    One that has none works through the first row for nothing, since all must take part in the exchange of gradients.
    """
    rows = slice(rank, None, n) if rank < len(batch.source) else slice(0, 1)
    parts = [part[rows].to(device) for part in (batch.source, batch.lengths, batch.target, batch.expected)]
    return parts, rank < len(batch.source)


def learn(run: Run, batches: list[Batch], step: int) -> Tensor:
    """Take one step; the loss summed over this process's tokens.

    Every part's loss is divided by the tokens of all parts of all processes: their gradients add up to those of the
    mean over one big batch. (Processes' gradients are averaged when exchanged, hence the factor n.)
    """
    n, rank = run.processes.n, run.processes.rank
    n_tokens = sum(batch.n_tokens for batch in batches)
    total = torch.zeros((), device=run.processes.device)
    for part, batch in enumerate(batches):
        torch.manual_seed(seed_of(run.config.training.seed, step, part, rank))
        tensors, mine = share(batch, rank, n, run.processes.device)
        exchanged = part == len(batches) - 1
        with run.processes.together(run.module, exchanged):
            loss = run.module(*tensors) * float(mine)
            run.processes.backward(loss * (n / n_tokens))
        total += loss.detach()
    run.processes.clip(run.module, run.config.training.clip_norm)
    set_learning_rate(run.optimiser, (run.config.training.learning_rate or 0.0) * run.schedule(step))
    run.optimiser.step()
    run.optimiser.zero_grad()
    return total


class Tally:
    """What is counted from one line of the log to the next, without waiting for the device; and the time."""

    def __init__(self, device: torch.device, earlier_seconds: float) -> None:
        self.start = time.perf_counter() - earlier_seconds
        self.mark = time.perf_counter()
        self.loss = torch.zeros((), device=device)
        self.seconds, self.n_expected, self.n_tokens = 0.0, 0, 0

    @property
    def elapsed_seconds(self) -> float:
        """The whole time of training, that of earlier runs with it."""
        return time.perf_counter() - self.start

    def add(self, loss: Tensor, batches: list[Batch]) -> None:
        """Count a step."""
        self.loss += loss
        self.n_expected += sum(batch.n_tokens for batch in batches)
        self.n_tokens += sum(batch.n_tokens + int(batch.lengths.sum()) for batch in batches)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do something that is no step: its time counts for the whole, not for the speed."""
        self.seconds += time.perf_counter() - self.mark
        yield
        self.mark = time.perf_counter()

    def clear(self) -> None:
        """Count from 0 again."""
        self.loss.zero_()
        self.seconds, self.n_expected, self.n_tokens = 0.0, 0, 0


def train_on(run: Run, state: State) -> State:
    """Train from where the state stands until there is a reason to end, or somebody asks to stop."""
    tally, settings = Tally(run.processes.device, state.elapsed_seconds), run.config.evaluation
    saved_seconds = state.elapsed_seconds
    if reason_to_end(run, state):
        return state
    with Stopping(run.watcher.say) as stopping:
        for batches, position in updates(run.batches, state.position, run.config.training.accumulate):
            step = position.step
            tally.add(learn(run, batches, step), batches)
            state = replace(state, position=position, elapsed_seconds=tally.elapsed_seconds)
            asked, late, over = agreed(
                run,
                step,
                stopping.asked,
                tally.elapsed_seconds - saved_seconds > 60 * settings.save_minutes,
                run.processes.is_main and out_of_time(run, state),  # by one clock, as clocks differ
            )
            judged = over or step >= run.max_steps or step % (settings.every_steps or 1) == 0
            if not (asked or late or judged or step % settings.log_steps == 0):
                continue
            with tally.paused():
                report(run, state, tally)
                state = evaluate(run, state) if judged else state
                if asked or late or judged:
                    saved_seconds = tally.elapsed_seconds
                    save(run, replace(state, elapsed_seconds=saved_seconds))
            if asked or over or reason_of_steps(run, state):
                break
    (elapsed_seconds,) = run.processes.from_main([tally.elapsed_seconds])
    return replace(state, elapsed_seconds=elapsed_seconds)


def agreed(run: Run, step: int, *wishes: bool) -> list[bool]:
    """What any process wants, now and then where there are several; nobody wants anything at other times."""
    if run.processes.n == 1:
        return list(wishes)
    if step % ASK_STEPS:
        return [False] * len(wishes)
    return run.processes.any(wishes)


def reason_to_end(run: Run, state: State) -> str | None:
    """Why training is over; None = it is not."""
    reason = reason_of_steps(run, state)
    if reason is None and out_of_time(run, state):
        return f"its {run.config.training.max_minutes:g} minutes are over (training.max_minutes)"
    return reason


def reason_of_steps(run: Run, state: State) -> str | None:
    """Why its steps and evaluations, which all processes count alike, are enough; None = they are not."""
    patience = run.config.evaluation.patience
    if state.position.step >= run.max_steps:
        return f"step {run.max_steps:,} was to be the last (training.max_steps)"
    if patience is not None and state.since_best >= patience:
        return f"{state.since_best} evaluations in a row were no better (evaluation.patience)"
    return None


def out_of_time(run: Run, state: State) -> bool:
    """Is the time over that training was given?"""
    minutes = run.config.training.max_minutes
    return minutes is not None and state.elapsed_seconds >= 60 * minutes


def report(run: Run, state: State, tally: Tally) -> None:
    """Write a line of the log about the steps since the last, and show how it goes.

    Raises:
        InputError: the loss is not a number any more.
    """
    total = float(run.processes.total(tally.loss))
    step, loss = state.position.step, total / max(tally.n_expected, 1)
    if not math.isfinite(loss):
        raise InputError(
            f"the loss is {loss} at step {step:,}: training has come apart. Train into another folder "
            "with a lower training.learning_rate, a longer training.warmup_steps or a smaller training.clip_norm."
        )
    rate = (run.config.training.learning_rate or 0.0) * run.schedule(step)
    speed = tally.n_tokens / max(tally.seconds, 1e-9)
    tally.clear()
    if run.log is not None:
        entry = {"step": step, "epoch": state.position.epoch, "loss_nats": loss, "learning_rate": rate}
        run.log.add({**entry, "tokens_per_second": round(speed), "elapsed_seconds": round(state.elapsed_seconds, 1)})
        run.watcher.stands(
            Standing(
                step=step,
                max_steps=run.max_steps,
                epoch=state.position.epoch,
                loss_nats=loss,
                learning_rate=rate,
                tokens_per_second=speed,
                left_seconds=left_seconds(run, state),
                best="" if state.best is None else f"best {state.best.words()}",
            )
        )


def left_seconds(run: Run, state: State) -> float:
    """The most time that is left: to the last step at the pace so far, evaluations and all, or to the limit."""
    minutes = run.config.training.max_minutes
    to_last_step = (run.max_steps - state.position.step) * state.elapsed_seconds / state.position.step
    to_limit = math.inf if minutes is None else 60 * minutes - state.elapsed_seconds
    return max(min(to_last_step, to_limit), 0.0)


def evaluate(run: Run, state: State) -> State:
    """Judge the parameters as they are or the mean of the latest, whichever has the lower loss.

    If they are to be kept, being the best or the last, they are written to the training's folder as a translator, so
    that there is one from the first evaluation on.
    """
    parameters = run.processes.parameters(run.module)
    if run.judge is not None and run.log is not None:
        own = {name.removeprefix(TeacherForced.PREFIX): tensor for name, tensor in parameters.items()}
        name = write_snapshot(run.snapshots, state.position.step, own)
        names = (*(n for n in state.snapshots if n != name), name)[-run.config.evaluation.average :]
        verdict = run.judge.verdict(run.snapshots, names, state.position.step)
        settings = run.config.evaluation
        state = replace(state.judged(verdict.judged, settings.metric, settings.keep), snapshots=names)
        if state.kept == verdict.judged:
            run.judge.write_translator(run.folder, verdict.judged)
        entry = verdict.entry(state)
        run.log.add(entry)
        run.watcher.judged(entry)
    (since_best,) = run.processes.from_main([state.since_best])
    return replace(state, since_best=since_best)


def save(run: Run, state: State) -> None:
    """Write a checkpoint, and remove what none needs any more."""
    tensors = {
        "model": run.processes.parameters(run.module),
        "optimiser": run.processes.optimiser_tensors(run.module, run.optimiser),
    }
    if run.processes.is_main:
        beside = [*run.vocabularies, *(run.snapshots / name for name in state.snapshots)]
        save_checkpoint(run.checkpoints, state.position.step, tensors, state.as_json(), beside)
        keep_latest(run.checkpoints, CHECKPOINTS, state.position.step)
        keep_only(run.snapshots, needed_beside(run.checkpoints))
    run.processes.wait()
