"""Train translators by several recipes, and measure their translations of the same test lines.

The pairs are a file that does not come with regard, such as kor.txt of manythings.org/anki. All trainings have the same
model, number of steps and test lines. A seed decides which dev pairs a training takes out, its initial parameters, the
order of the pairs and dropout.
"""

import json
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Annotated

import torch
import typer
from machine import machine
from measure import Spread
from options import Out, Quick
from picture import Picture
from table import Row, Table, command_of, publish, with_progress

from regard.evaluation.evaluate import evaluate
from regard.text.sample import sample
from regard.training.back_translation import BackTranslation
from regard.training.data.split import largest_dev_rank, random_rank
from regard.training.settings.train_config import Data, Evaluation, Model, TrainConfig, Training, VocabularySettings
from regard.training.train import train
from regard.training.watcher import Watcher
from regard.translation.search.beam import Beam
from regard.translation.search.interface import Search
from regard.translation.search.minimum_risk import MinimumRisk
from regard.translation.search.sampling import Sample
from regard.translation.translator import Translator

BEAM = Beam()

Pair = tuple[str, str]

KOREAN_NAME, ENGLISH_NAME = re.compile("톰(?=[은는이가을를의과와도에께아한만, .!?]|$)"), re.compile(r"\bTom\b")
"""A frequent name in Tatoeba, in Korean with or without a particle after it, and in English."""

KINDS = "name", "number", "URL"


@dataclass(frozen=True, slots=True)
class Sizes:
    """The counts of test sources, training steps, dev pairs that an evaluation translates, and samples."""

    test: int
    steps: int
    dev: int
    samples: int


SIZES, QUICK = Sizes(test=300, steps=800, dev=100, samples=16), Sizes(test=12, steps=2, dev=2, samples=2)

LAYERS, BATCH_TOKENS = 2, 1_000


@dataclass(frozen=True, slots=True)
class Corpus:
    """A corpus of sentence pairs: its name, and the language of the sources; the targets are English."""

    name: str
    language: str

    @property
    def recipes(self) -> list[str]:
        """The recipes that suit the corpus."""
        return [name for name in RECIPES if self.has_items or name != "learnt copies"]

    @property
    def has_items(self) -> bool:
        """Whether names can be replaced by items: `KOREAN_NAME` finds a name."""
        return self.language == "ko"


TATOEBA = Corpus("Tatoeba", "ko")


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """A way to train and to translate.

    Attributes:
        data: the training data: a case of `trained`, and the name of the folder.
        against: the recipe that its scores are compared with.
        search: None = minimum Bayes risk decoding.
        placeholders: the setting vocabulary.placeholders; None = the default.
        weights: the setting data.weights.
    """

    data: str = "plain"
    against: str = "default"
    search: Search | None = BEAM
    placeholders: bool | None = False
    weights: tuple[float, ...] | None = None


RECIPES: Mapping[str, Recipe] = {
    "default": Recipe(data="all", placeholders=None),
    "MBR": Recipe(data="all", placeholders=None, search=None),
    "without placeholders": Recipe(),
    "learnt copies": Recipe(data="copies"),
    "half of the pairs": Recipe(data="half", against="half of the pairs"),
    "half, back-translation": Recipe(data="back-translation", against="half of the pairs"),
    "half twice, back-translation": Recipe(data="weights", against="half of the pairs", weights=(2.0, 1.0)),
}


LEARNT_COPIES = (
    " learnt copies: training has a second corpus: three of four pairs with the name Tom, with a random item in place "
    "of the name."
)
"""The description of this recipe in the text above the table."""

BACK_TRANSLATION = (
    " back-translation: half of the pairs, and the English lines of the other half with sources by `regard "
    "back-translate --top-k 10`, marked as synthetic; half twice: with `--weights 2,1`. Their gains are over the "
    "first half alone."
)
"""The description of the recipes with back-translation."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Texts:
    """The sentence pairs, and the folder in which all trainings are kept.

    Attributes:
        items: test pairs with an item in place of a name, and the item; none if the sources are not Korean.
    """

    corpus: Corpus
    train: Sequence[Pair]
    test: Sequence[Pair]
    items: Sequence[tuple[Pair, str]]
    folder: Path
    sizes: Sizes


@dataclass(frozen=True, slots=True)
class Measured:
    """The translations of the test lines, and of the lines with items."""

    found: list[str]
    with_items: list[str]


def main(
    pairs: Annotated[Path | None, typer.Argument(help="kor.txt, or lines of English, a tab and the source.")] = None,
    recipe: Annotated[
        list[str] | None, typer.Option(help="A recipe; may be given several times. [default: all]")
    ] = None,
    corpus: Annotated[str, typer.Option(help="Name of the corpus.")] = TATOEBA.name,
    language: Annotated[str, typer.Option(help="Language of the sources.")] = TATOEBA.language,
    limit: Annotated[int | None, typer.Option(help="Number of pairs that are used. [default: all]")] = None,
    seeds: Annotated[int, typer.Option(help="Number of trainings by each recipe.")] = 3,
    work: Annotated[Path | None, typer.Option(help="Folder for the trainings; what it has is not done again.")] = None,
    quick: Quick = False,
    out: Out = None,
) -> None:
    """Train by every recipe with several seeds, and measure BLEU, chrF and the share of items kept.

    \b
    Examples
      python benchmarks/recipes.py kor.txt --work trainings
      python benchmarks/recipes.py en-de.tsv --corpus Multi30k --language de --limit 8000 --work others
    """
    if pairs is None and not quick:
        raise SystemExit("benchmarks/recipes.py needs kor.txt of manythings.org/anki; --quick runs without it.")
    named_corpus = Corpus(corpus, language)
    names = named_corpus.recipes if recipe is None else with_compared(recipe)
    torch.set_num_threads(1)
    all_pairs = number_pairs() if pairs is None else tabbed_pairs(pairs)[:limit]
    with TemporaryDirectory() as folder:
        texts = split(all_pairs, work or Path(folder), QUICK if quick else SIZES, named_corpus)
        cases = [(seed, name) for seed in range(1, 2 if quick else seeds + 1) for name in names]
        measures: dict[str, list[Measured]] = {name: [] for name in names}
        for seed, name in with_progress(cases, "recipes"):
            measures[name].append(measured(name, seed, texts))
        publish(table_of(texts, measures), out, quick)


def with_compared(names: Sequence[str]) -> list[str]:
    """Return the names of recipes, and of the recipes that they are compared with, in the order of RECIPES."""
    for name in names:
        if name not in RECIPES:
            raise SystemExit(f"no recipe {name!r}; there are {', '.join(map(repr, RECIPES))}.")
    compared = {RECIPES[name].against for name in names}
    return [name for name in RECIPES if name in names or name in compared]


def tabbed_pairs(path: Path) -> list[Pair]:
    lines = (line.split("\t")[:2] for line in path.read_text(encoding="utf-8").splitlines())
    return [(source, english) for english, source in lines]


def number_pairs() -> list[Pair]:
    """Return pairs (Korean, English) for a quick run."""
    names = sample("ko", "en", {"all": 300}, seed=7)["all"]
    return [(f"톰은 {korean}", f"Tom has {english}") for korean, english in names]


def split(pairs: Sequence[Pair], folder: Path, sizes: Sizes, corpus: Corpus = TATOEBA) -> Texts:
    """Take the pairs of some random sources out as test pairs; no test source and no test target is trained on."""
    largest_rank = largest_dev_rank((source for source, _ in pairs), sizes.test, seed=0)
    pair_of_source = {pair[0]: pair for pair in pairs if random_rank(pair[0], seed=0) <= largest_rank}
    test = list(pair_of_source.values())
    held_out = {text for pair in test for text in pair}
    return Texts(
        corpus=corpus,
        train=[pair for pair in pairs if not held_out & set(pair)],
        test=test,
        items=with_items(test, KINDS, seed=0) if corpus.has_items else [],
        folder=folder,
        sizes=sizes,
    )


def measured(name: str, seed: int, texts: Texts) -> Measured:
    """Train by a recipe and translate, unless it was done before."""
    path, recipe = texts.folder / f"{name}-{seed}.json", RECIPES[name]
    if path.exists():
        return Measured(**json.loads(path.read_text("utf-8")))
    translator = Translator.load(trained(recipe, texts, seed), "cpu")
    search = recipe.search or MinimumRisk(texts.sizes.samples, sample=Sample(seed=seed))
    sources = [source for source, _ in [*texts.test, *(pair for pair, _ in texts.items)]]
    translations = [one.text for one in translator.translate(sources, search=search, truncate=True)]
    result = Measured(found=translations[: len(texts.test)], with_items=translations[len(texts.test) :])
    path.write_text(json.dumps(asdict(result), ensure_ascii=False), "utf-8")
    return result


def trained(recipe: Recipe, texts: Texts, seed: int) -> Path:
    folder = texts.folder / f"{recipe.data}-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    files = {"train": texts.train}
    if recipe.data in ("half", "back-translation", "weights"):
        files = {"train": texts.train[::2]}
    if recipe.data in ("back-translation", "weights"):
        files["synthetic"] = back_translated(texts, seed)
    if recipe.data == "copies":
        files["items"] = [pair for pair, _ in with_items(texts.train, KINDS, seed)[::4]]  # the kinds in turn
    return train_on(folder, files, texts, seed, recipe)


def train_on(
    folder: Path, files: Mapping[str, Sequence[Pair]], texts: Texts, seed: int, recipe: Recipe, reverse: bool = False
) -> Path:
    """Write the corpora and train on them, unless it was done before; return the folder of the translator.

    Args:
        files: the pairs of each corpus, by the name of its files.
        reverse: train from English to the other language.
    """
    languages, sizes = (texts.corpus.language, "en"), texts.sizes
    for name, pairs in files.items():
        for side, language in enumerate(languages):
            (folder / f"{name}.{language}").write_text("".join(f"{pair[side]}\n" for pair in pairs), "utf-8")
    config = TrainConfig(
        data=Data(synthetic=(2,) if "synthetic" in files else None, weights=recipe.weights),
        vocabulary=VocabularySettings(placeholders=recipe.placeholders),
        model=Model(changes={"n_layers": LAYERS}),
        training=Training(seed=seed, max_steps=sizes.steps, batch_tokens=BATCH_TOKENS, precision="float32"),
        evaluation=Evaluation(
            every_steps=max(1, sizes.steps // 4), pairs=sizes.dev, patience=99, keep="last", average=1
        ),
    )
    sources, targets = ([folder / f"{name}.{language}" for name in files] for language in languages)
    if reverse:
        sources, targets = targets, sources
    training = train(sources, targets, folder / "translator", config, device="cpu")
    if training.reason is None:
        raise SystemExit("stopped; the same command with --work continues")
    return training.folder


def back_translated(texts: Texts, seed: int) -> list[Pair]:
    """Return the pairs that a translator trained on half of the pairs makes of the other half's English lines."""
    folder = texts.folder / f"reverse-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    source, target = folder / f"synthetic.{texts.corpus.language}", folder / "synthetic.en"
    if not target.exists():
        reverse = train_on(folder, {"train": texts.train[::2]}, texts, seed, Recipe(), reverse=True)
        (folder / "text.en").write_text("".join(f"{english}\n" for _, english in texts.train[1::2]), "utf-8")
        BackTranslation(
            translator=reverse,
            text=folder / "text.en",
            source=source,
            target=target,
            search=Sample(top_k=10, seed=seed),
        ).run("cpu", Watcher())
    lines = (path.read_text("utf-8").splitlines() for path in (source, target))
    return list(zip(*lines, strict=True))


def table_of(texts: Texts, measures: Mapping[str, Sequence[Measured]]) -> Table:
    rows = [row(name, measures[name], measures[RECIPES[name].against], texts) for name in measures]
    scores = ["BLEU", *(["chrF2 with items"] if texts.items else [])]
    return Table(
        name="recipes" if texts.corpus == TATOEBA else f"recipes-{texts.corpus.name.lower()}",
        title="Recipes for a small corpus" + ("" if texts.corpus == TATOEBA else f", {texts.corpus.name}"),
        about=text_above_table(texts, list(measures), seeds=len(next(iter(measures.values())))),
        command=command_of(__file__),
        machine=machine("sacrebleu"),
        rows=rows,
        picture=Picture(x="recipe", y=scores, label=", ".join(score.split()[0] for score in scores)),
    )


def text_above_table(texts: Texts, recipes: Sequence[str], seeds: int) -> str:
    sizes, corpus = texts.sizes, texts.corpus
    several = (
        f"; the median of {seeds} seeds, and the worst and the best seed in brackets" if seeds > 1 else "; one seed"
    )
    return (
        f"Small translators from {corpus.language} to en, trained by `regard train` on {len(texts.train):,} pairs of "
        f"{corpus.name}, dev pairs included: the default settings, but {LAYERS} layers, {BATCH_TOKENS:,} tokens in a "
        f"batch and only {sizes.steps} steps in every training, whose last parameters are kept. They show which "
        "recipe is better than another, not "
        f"how well regard translates. BLEU and chrF2: {len(texts.test)} test lines whose source and target are "
        f"not in the training{several}. ±: half the "
        "width of the 95 % confidence interval of BLEU by bootstrap resampling of the test lines, the mean of "
        "the seeds. gain: the BLEU of a recipe minus the BLEU of the default with the same seed. million tokens: "
        "source and target tokens that were read in training, for back-translation also by the translator of the other "
        "direction. A training takes time in proportion to its tokens, so recipes with equal steps are compared at "
        "nearly equal time, but back-translation takes twice the time. MBR costs time only in translation. "
        + (items_text(texts) if texts.items else "")
        + "The default uses placeholders: signs stand for names, numbers and URLs, and one pair is added for five, "
        "with signs for names that both texts have; all other recipes but MBR have vocabulary.placeholders = "
        f"false. MBR: `--mbr {sizes.samples}`."
        + (LEARNT_COPIES if "learnt copies" in recipes else "")
        + (BACK_TRANSLATION if "half, back-translation" in recipes else "")
    )


def items_text(texts: Texts) -> str:
    return (
        "names, numbers, URLs kept: test lines with the "
        f"name Tom, in which a random item replaces the name ({len(texts.items) // len(KINDS)} lines of each "
        "kind), in percent of the lines whose translation has the item. chrF2 with items: of these lines, against "
        "references with the item. "
    )


def row(name: str, own: Sequence[Measured], others: Sequence[Measured], texts: Texts) -> Row:
    """Return the row of a recipe; `others` are the translations by the recipe that it is compared with."""
    references = [english for _, english in texts.test]
    bleu, gains, intervals, chrf = list[float](), list[float](), list[float](), list[float]()
    for measured, other in zip(own, others, strict=True):  # for each seed
        bleu_score, chrf_score, *_ = evaluate(measured.found, references, against=other.found).scores
        assert bleu_score.comparison is not None
        bleu.append(bleu_score.value)
        gains.append(bleu_score.value - bleu_score.comparison.other)
        intervals.append(bleu_score.comparison.interval)
        chrf.append(chrf_score.value)
    return {
        "recipe": name,
        "BLEU": of_seeds(bleu),
        "±": statistics.mean(intervals),
        "gain": None if own is others else of_seeds(gains),
        "chrF2": of_seeds(chrf),
        "million tokens": of_seeds([tokens_trained(name, seed, texts) / 1e6 for seed in range(1, len(own) + 1)]),
        **(items_of(own, texts.items) if texts.items else {}),
    }


def tokens_trained(name: str, seed: int, texts: Texts) -> float:
    """Return how many source and target tokens the trainings of a recipe read, by their logs."""
    data, n_tokens = RECIPES[name].data, 0.0
    for folder in [data, "reverse"] if data in ("back-translation", "weights") else [data]:
        log, seconds_before = texts.folder / f"{folder}-{seed}" / "translator" / "log.jsonl", 0.0
        for entry in map(json.loads, log.read_text("utf-8").splitlines()):
            if "tokens_per_second" in entry:  # since the entry before
                n_tokens += entry["tokens_per_second"] * (entry["elapsed_seconds"] - seconds_before)
                seconds_before = entry["elapsed_seconds"]
    return n_tokens


def items_of(own: Sequence[Measured], items: Sequence[tuple[Pair, str]]) -> Row:
    """Return the share of items kept, by kind, and the chrF of the lines with items."""
    columns = dict[str, Spread | float]()
    for number, kind in enumerate(KINDS):  # the lines of a pair have the kinds in turn
        percentages = []
        for measured in own:
            is_kept = [item in text for text, (_, item) in zip(measured.with_items, items, strict=True)]
            percentages.append(100 * statistics.mean(is_kept[number :: len(KINDS)]))
        columns[f"{kind}s kept"] = of_seeds(percentages)
    references = [english for (_, english), _ in items]
    chrf = [evaluate(measured.with_items, references).scores[1].value for measured in own]
    return columns | {"chrF2 with items": of_seeds(chrf)}


def of_seeds(numbers: Sequence[float]) -> Spread | float:
    """Return the median, the least and the greatest of one number for each seed; for a single seed, its number."""
    if len(numbers) == 1:
        return numbers[0]
    return Spread(statistics.median(numbers), min(numbers), max(numbers))


# Items that a translation should keep as they are: names, numbers and URLs


def item(kind: str, random: Random) -> str:
    """Return a random item: a name such as Kotanu, a number of 4 to 6 digits, or a URL.

    >>> item("name", Random(1)), item("number", Random(1)), item("URL", Random(1))
    ('Paja', '141891', 'www.paja.com')
    """
    if kind == "number":
        return str(random.randrange(1_000, 1_000_000))
    name = "".join(random.choice("bdfgjklmnprstvz") + random.choice("aeiou") for _ in range(random.randint(2, 4)))
    return name.capitalize() if kind == "name" else f"www.{name}.com"


def with_items(pairs: Sequence[Pair], kinds: Sequence[str], seed: int) -> list[tuple[Pair, str]]:
    """Replace the name by an item of each kind, where both texts have the name once; return pairs and items."""
    random, items = Random(seed), list[tuple[Pair, str]]()
    for korean, english in pairs:
        if len(KOREAN_NAME.findall(korean)) == len(ENGLISH_NAME.findall(english)) == 1:
            for kind in kinds:
                new = item(kind, random)
                items.append(((KOREAN_NAME.sub(new, korean), ENGLISH_NAME.sub(new, english)), new))
    return items


if __name__ == "__main__":
    typer.run(main)
