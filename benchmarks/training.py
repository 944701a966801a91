"""Time the training of a translator: regard's loop, torch.nn.Transformer in a plain loop, and MarianMT with Trainer.

All three train the same Transformer on the same batches in the same order, with the same AdamW, learning rates, label
smoothing and clipping, in turns. The loss after the last turn shows that all of them learn equally well.
"""

import math
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain, count, islice
from pathlib import Path
from typing import Annotated

import torch
import torch.nn.functional as F
import typer
from machine import machine
from measure import Elapsed, Spread, ratio, take_turns
from options import Out, Quick, Seconds, Threads
from picture import Picture
from sentences import sentences
from table import Row, Table, command_of, publish, with_progress
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainerState, TrainingArguments

from regard.attention.positions.sinusoidal import sinusoidal
from regard.text.batches import Batch, Batches
from regard.text.corpus import write_corpus
from regard.text.vocabulary import BOS, EOS, PAD, Vocabulary
from regard.training.learning_rate import named_schedule
from regard.training.loop import Run, train_step
from regard.training.loss import TeacherForced
from regard.training.optimiser import make_optimiser
from regard.training.processes.process_group import Processes
from regard.training.settings.settled_config import checked_complete
from regard.training.settings.train_config import Data, Evaluation, TrainConfig, Training, VocabularySettings
from regard.training.watcher import Watcher
from regard.transformer.config import TransformerConfig
from regard.transformer.marian import to_marian
from regard.transformer.model import Transformer

PRESETS = "tiny", "small"
LINES, PIECES, N_TOKENS = 10_000, 200, 8_000
RATE, WARMUP, SMOOTHING, CLIP, DECAY, SEED = 1e-3, 200, 0.1, 1.0, 0.01, 1

Segment = list[Batch]

SCHEDULE = named_schedule("inverse-square-root", WARMUP, max_steps=WARMUP)
"""The factor of the peak learning rate at each step, the same for all."""


def main(
    preset: Annotated[
        list[str] | None, typer.Option(help="tiny, small, base or big; may be given several times.")
    ] = None,
    batch_tokens: Annotated[int, typer.Option(help="Tokens of a batch, of source or target, padding counted.")] = 4000,
    steps: Annotated[int, typer.Option(help="Training steps of each program in a turn.")] = 10,
    seconds: Seconds = 240,
    threads: Threads = None,
    quick: Quick = False,
    out: Out = None,
) -> None:
    """Compare the speed of training with a plain torch loop and with transformers' Trainer.

    \b
    Example
      python benchmarks/training.py --preset small --batch-tokens 8000
    """
    torch.set_num_threads(threads or torch.get_num_threads())
    lines = LINES
    if quick:
        preset, batch_tokens, steps = preset or ["tiny"], min(batch_tokens, 500), min(steps, 1)
        seconds, lines = 0.1, 300
    with tempfile.TemporaryDirectory() as folder:
        batches = batches_of(Path(folder), lines, batch_tokens)
        rows = [measured(name, batches, steps, seconds) for name in with_progress(preset or PRESETS, "training")]
    table = Table(
        name="training",
        title="Training, in tokens a second",
        about=(
            "Source and target tokens a second, padding not counted, of four training loops. regard: its own; torch: a "
            "plain loop around torch.nn.Transformer, with dropout only where regard has dropout; torch as it comes: "
            "the same loop with torch's default dropout, also on attention weights and inside feed-forward networks; "
            "Trainer: MarianMT with transformers' Trainer. All train the same post-norm Transformer on the same "
            f"batches of {batch_tokens:,} tokens (lines of one to three number names) with a vocabulary of "
            f"{N_TOKENS:,}, AdamW and float32, in turns of {steps} steps. The losses are those of the last {steps} "
            "steps. Goals: 1.3 times torch's speed, and at least the Trainer's."
        ),
        command=command_of(__file__),
        machine=machine("transformers", "accelerate"),
        rows=rows,
        picture=Picture(x="model", y=["regard", "torch", "torch as it comes", "Trainer"], label="tokens a second"),
    )
    publish(table, out, quick)


def measured(preset: str, batches: Batches, steps: int, seconds: float) -> Row:
    config = TransformerConfig.preset(
        preset, n_source_tokens=N_TOKENS, n_target_tokens=N_TOKENS, norm="post", share="all"
    )
    torch.manual_seed(SEED)
    model = Transformer(config).train()
    loops: dict[str, TrainingLoop] = {
        "Trainer": WithTrainer(to_marian(model, pad=PAD, bos=BOS, eos=EOS).train()),
        "regard": WithRegard(TeacherForced(model, SMOOTHING), batches),
        "torch": WithTorch(PlainTransformer(config, inner_dropout=0.0)),
        "torch as it comes": WithTorch(PlainTransformer(config, inner_dropout=config.dropout)),
    }
    trainings = {name: TimedTraining(loop, segments(batches, steps)) for name, loop in loops.items()}
    elapsed = take_turns(trainings, seconds)
    speeds = {}
    for name, training in trainings.items():
        n_tokens = training.n_tokens[1:]  # take_turns does not time the first turn
        speeds[name] = Spread.of([n / turn_seconds for n, turn_seconds in zip(n_tokens, elapsed[name], strict=True)])
    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    return {
        "model": f"{preset} ({n_parameters / 1e6:.1f} M)",
        **{name: speeds[name].median for name in ("regard", "torch", "torch as it comes", "Trainer")},
        "regard / torch": ratio(elapsed["torch"], elapsed["regard"]),
        "regard / torch as it comes": ratio(elapsed["torch as it comes"], elapsed["regard"]),
        "regard / Trainer": ratio(elapsed["Trainer"], elapsed["regard"]),
        **{f"loss, {name}": trainings[name].loss for name in ("regard", "torch", "Trainer")},
    }


def batches_of(folder: Path, lines: int, batch_tokens: int) -> Batches:
    """Return batches of sentences as `regard train` makes them."""
    texts, _ = sentences("en", "de", train=lines)
    vocabulary = Vocabulary.train(chain.from_iterable(texts), PIECES)
    corpus = write_corpus(folder, texts, vocabulary, vocabulary, max_tokens=256, max_ratio=9.0)
    return Batches(corpus, batch_tokens, SEED)


def segments(batches: Batches, steps: int) -> Iterator[Segment]:
    """Yield lists of `steps` batches, without end."""
    endless = chain.from_iterable(batches.epoch(number) for number in count())
    while True:
        yield list(islice(endless, steps))


TrainingLoop = Callable[[Segment, int], float]
"""Takes a training step for each batch of a segment, given the number of earlier steps; returns the mean loss."""


class TimedTraining:
    """A training as a function: every call trains on the next segment, the batches of some steps."""

    def __init__(self, loop: TrainingLoop, segments: Iterable[Segment]) -> None:
        self.loop, self.segments, self.n_steps, self.loss = loop, iter(segments), 0, math.nan
        self.n_tokens: list[int] = []

    def __call__(self) -> Elapsed:
        segment = next(self.segments)
        start = time.perf_counter()
        self.loss = self.loop(segment, self.n_steps)
        elapsed = time.perf_counter() - start - getattr(self.loop, "uncounted_seconds", 0.0)
        self.n_steps += len(segment)
        self.n_tokens.append(sum(batch.n_tokens + int(batch.lengths.sum()) for batch in segment))
        return Elapsed(elapsed)


class WithRegard:
    """The training steps of `regard train`."""

    def __init__(self, module: TeacherForced, batches: Batches) -> None:
        self.run = Run(
            config=checked_complete(
                TrainConfig(
                    data=Data(dev_pairs=1, max_tokens=256),
                    vocabulary=VocabularySettings(joint=False, placeholders=False),
                    training=Training(
                        seed=SEED,
                        batch_tokens=4_000,
                        learning_rate=RATE,
                        schedule="inverse-square-root",
                        warmup_steps=WARMUP,
                        clip_norm=CLIP,
                        max_steps=1,
                        precision="float32",
                    ),
                    evaluation=Evaluation(every_steps=1, patience=1),
                )
            ),
            folder=Path(),
            processes=Processes.start(torch.device("cpu"), "float32"),
            batches=batches,
            module=module,
            optimiser=make_optimiser(module, RATE, DECAY),
            schedule=SCHEDULE,
            evaluator=None,
            log=None,
            watcher=Watcher(),
        )

    def __call__(self, segment: Segment, n_earlier_steps: int) -> float:
        losses = []
        for step, batch in enumerate(segment, start=n_earlier_steps + 1):
            losses.append(train_step(self.run, [batch], step) / batch.n_tokens)
        return float(sum(losses)) / len(losses)


class WithTorch:
    """A training loop in plain PyTorch."""

    def __init__(self, module: "PlainTransformer") -> None:
        self.module = module.train()
        self.optimiser = make_optimiser(module, RATE, DECAY)
        self.schedule = LambdaLR(self.optimiser, lambda step: SCHEDULE(step + 1))

    def __call__(self, segment: Segment, n_earlier_steps: int) -> float:
        losses = []
        for batch in segment:
            logits = self.module(batch.source, batch.target)
            loss = F.cross_entropy(
                logits.flatten(0, 1), batch.expected.flatten(), ignore_index=PAD, label_smoothing=SMOOTHING
            )
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(self.module.parameters(), CLIP)
            self.optimiser.step()
            self.schedule.step()
            self.optimiser.zero_grad()
            losses.append(loss.detach())
        return float(sum(losses)) / len(losses)


class PlainTransformer(nn.Module):
    """torch.nn.Transformer with an embedding that is also its output projection.

    Args:
        inner_dropout: the dropout on attention weights and in feed-forward networks, which the paper does not have.
    """

    def __init__(self, config: TransformerConfig, inner_dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.n_target_tokens, config.d_model)
        nn.init.normal_(self.embedding.weight, std=config.d_model**-0.5)
        self.bias = nn.Parameter(torch.zeros(config.n_target_tokens))
        self.register_buffer("positions", sinusoidal(config.max_tokens, config.d_model), persistent=False)
        self.dropout = nn.Dropout(config.dropout)
        sizes = config.d_model, config.n_heads, config.n_layers, config.n_layers, config.d_ff
        self.transformer = nn.Transformer(*sizes, config.dropout, batch_first=True)
        for module in self.transformer.modules():
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = inner_dropout
            if isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                module.dropout.p = inner_dropout

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        padding = source == PAD
        future = nn.Transformer.generate_square_subsequent_mask(target.shape[1], dtype=torch.bool)
        x = self.transformer(
            self.embedded(source),
            self.embedded(target),
            tgt_mask=future,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        return F.linear(x, self.embedding.weight, self.bias)

    def embedded(self, tokens: Tensor) -> Tensor:
        scaled = self.embedding(tokens) * math.sqrt(self.embedding.embedding_dim)
        return self.dropout(scaled + self.get_buffer("positions")[: tokens.shape[1]])


class WithTrainer(TrainerCallback):  # type: ignore[misc]
    """transformers' Trainer on prepared batches; each segment is a call of its `train()`.

    The time before the first step of such a call is not counted.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model, self.start, self.uncounted_seconds = model, 0.0, 0.0

    def __call__(self, segment: Segment, n_earlier_steps: int) -> float:
        self.start = time.perf_counter()
        self.trainer.train_dataset = [marian_batch(batch) for batch in segment]
        return float(self.trainer.train().training_loss)

    def on_step_begin(self, arguments: object, state: TrainerState, control: object, **others: object) -> None:
        if state.global_step == 0:
            self.uncounted_seconds = time.perf_counter() - self.start

    @cached_property
    def trainer(self) -> Trainer:
        optimiser = make_optimiser(self.model, RATE, DECAY)
        schedule = LambdaLR(optimiser, lambda step: SCHEDULE(step + 1))
        arguments = TrainingArguments(
            output_dir=tempfile.gettempdir(),
            num_train_epochs=1,
            per_device_train_batch_size=1,
            label_smoothing_factor=SMOOTHING,
            max_grad_norm=CLIP,
            logging_strategy="no",
            save_strategy="no",
            report_to="none",
            train_sampling_strategy="sequential",
            disable_tqdm=True,
            use_cpu=True,
            seed=SEED,
        )
        trainer = Trainer(
            self.model,
            arguments,
            data_collator=lambda batches: batches[0],
            callbacks=[self],
            optimizers=(optimiser, schedule),
        )
        trainer.remove_callback(PrinterCallback)
        return trainer


def marian_batch(batch: Batch) -> Mapping[str, Tensor]:
    """Return a batch under the argument names of MarianMT."""
    positions = torch.arange(batch.source.shape[1])
    return {
        "input_ids": batch.source,
        "attention_mask": (positions < batch.lengths[:, None]).long(),
        "decoder_input_ids": batch.target,
        "labels": batch.expected.masked_fill(batch.expected == PAD, -100),
    }


if __name__ == "__main__":
    typer.run(main)
