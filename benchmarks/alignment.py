"""Measure the word alignments of two translators of number names, by every layer, head and decoder step."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import typer
from machine import machine
from number_alignment import reference
from options import Out, Quick, Threads
from picture import Picture
from table import Row, Table, Value, command_of, publish, with_progress

from regard.evaluation.alignment_error import ReferenceAlignment, alignment_error_rate
from regard.text.sample import namer, random_numbers
from regard.training.settings.train_config import Evaluation, TrainConfig, Training
from regard.training.train import train
from regard.translation.alignment import Alignment
from regard.translation.alignment_choice import measured_rules
from regard.translation.translator import Translator

DIRECTIONS = ("en", "ko"), ("ko", "en")
BELOW, SEED = 1_000_000, 7


@dataclass(frozen=True, slots=True)
class Sizes:
    """The counts of numbers for training, for choosing an alignment rule and for the test, and of training steps."""

    train: int
    dev: int
    test: int
    steps: int


SIZES, QUICK = Sizes(train=8_000, dev=300, test=300, steps=700), Sizes(train=200, dev=9, test=9, steps=2)


def main(threads: Threads = None, quick: Quick = False, out: Out = None) -> None:
    """Measure the alignments of two translators of number names.

    \b
    Example
      python benchmarks/alignment.py
    """
    torch.set_num_threads(threads or torch.get_num_threads())
    rows: dict[str, dict[str, Value]] = {}
    for source, target in with_progress(DIRECTIONS, "alignment"):
        for rule, measures in measured(source, target, QUICK if quick else SIZES).items():
            row = rows.setdefault(rule, {"rule": rule})
            row |= {f"{name} {source}-{target}": value for name, value in measures.items()}
    table = Table(
        name="alignment",
        title="Word alignments against right ones",
        about=(
            f"Translators of number names below {BELOW:,}, trained for {SIZES.steps} steps by `regard train`, and "
            f"{SIZES.test} test numbers with their reference translations. A rule says which weights align: those of "
            "one head of a layer, or the mean over its heads, at the decoder step that predicts the piece or at the "
            "next step, which reads it. agreement: how many target pieces are aligned with the source word whose "
            "absence makes them least probable; `regard train` chooses the rule with the largest agreement. AER: the "
            "alignment error rate against the alignment that follows from the digits. one a word: the AER if a target "
            "word is aligned only with the source word of its largest weight. All numbers are percentages. The first "
            "rule is the default."
        ),
        command=command_of(__file__),
        machine=machine(),
        rows=list(rows.values()),
        picture=Picture(x="rule", y=[f"AER {source}-{target}" for source, target in DIRECTIONS], label="AER, %"),
    )
    publish(table, out, quick)


def measured(source: str, target: str, sizes: Sizes) -> dict[str, Row]:
    names = {language: namer(language) for language in (source, target)}
    numbers = random_numbers(sizes.train + sizes.dev + sizes.test, BELOW, SEED)
    dev, test = numbers[sizes.train : sizes.train + sizes.dev], numbers[sizes.train + sizes.dev :]
    with TemporaryDirectory() as folder:
        texts = {language: Path(folder) / language for language in names}
        for language, path in texts.items():
            lines = [names[language](number) for number in numbers[: sizes.train]]
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        config = TrainConfig(
            training=Training(max_steps=sizes.steps, precision="float32"),
            evaluation=Evaluation(every_steps=min(sizes.steps, 175), pairs=min(sizes.dev, 100)),
        )
        train(texts[source], texts[target], Path(folder) / "translator", config, device="cpu")
        translator = Translator.load(Path(folder) / "translator", "cpu")
    pairs = translator.score([names[source](number) for number in dev], [names[target](number) for number in dev])
    rules = measured_rules(translator.model, pairs, translator.device)
    scored = translator.score([names[source](number) for number in test], [names[target](number) for number in test])
    references = [reference_alignment(number, source, names["en"](number), names["ko"](number)) for number in test]
    measures = dict[str, Row]()
    for rule in rules:
        alignments = translator.align(scored, rule)
        error = alignment_error_rate(zip([alignment.pairs for alignment in alignments], references, strict=True))
        one_each = alignment_error_rate(zip(map(one_a_word, alignments), references, strict=True))
        head = "mean" if rule.head is None else f"H{rule.head}"
        name = "default" if rule.layer is None else f"L{rule.layer} {head} {rule.step}"
        agreement = None if rule.agreement is None else 100 * rule.agreement
        measures[name] = {"agreement": agreement, "AER": 100 * error, "one a word": 100 * one_each}
    return measures


def reference_alignment(number: int, source: str, english: str, korean: str) -> ReferenceAlignment:
    """Return the reference alignment from the source words to the target words."""
    from_english = reference(number, english, korean)
    if source == "en":
        return from_english
    return ReferenceAlignment(
        sure=frozenset((j, i) for i, j in from_english.sure),
        possible=frozenset((j, i) for i, j in from_english.possible),
    )


def one_a_word(alignment: Alignment) -> set[tuple[int, int]]:
    """Return, for each target word, the pair (source word with the largest weight, target word), as indices."""
    largest = alignment.weights.argmax(dim=1).tolist()
    return {(source, target) for target, source in enumerate(largest)}


if __name__ == "__main__":
    typer.run(main)
