"""Sample parallel text: the names of random numbers in two languages. The same seed gives the same numbers.

With this text, regard can be tried without a download. Each number has one right translation, by rules that a model can
learn. No number of the test split is in the training split.
"""

from collections.abc import Callable, Mapping
from itertools import islice, pairwise
from pathlib import Path
from random import Random
from typing import Any

from regard.atomic_files import write_atomically
from regard.errors import InputError, import_extra, reason
from regard.text.cleaning import clean_text
from regard.text.keyed_random import seed_of

SPLITS = "train", "dev", "test"
"""The names of the splits, with which the names of their files begin, such as train.en."""

LARGEST_BELOW = 10**18

Pairs = list[tuple[str, str]]


def sample(
    source: str, target: str, sizes: Mapping[str, int], *, seed: int = 1, below: int = 1_000_000
) -> dict[str, Pairs]:
    """Return, for each split, the names of random numbers in two languages; all numbers are different.

    Args:
        source, target: languages of num2words, such as "en".
        sizes: the number of pairs in each split.
        below: every number is less than this.

    >>> sample("en", "ko", {"train": 2}, seed=3)["train"]
    [('fifty-six thousand, six hundred and ninety-six', '오만 육천육백구십육'),
     ('three hundred and seventy-five thousand, nine hundred and forty-three', '삼십칠만 오천구백사십삼')]
    """
    if source == target:
        raise InputError(f"both languages are {source}; name two different ones.")
    source_name, target_name = namer(source), namer(target)
    numbers = random_numbers(sum(sizes.values()), below, seed)
    pairs = iter([(source_name(number), target_name(number)) for number in numbers])
    return {split: list(islice(pairs, size)) for split, size in sizes.items()}


def namer(language: str) -> Callable[[int], str]:
    """Return a function from a number to its name in a language: for "en", it returns "five" for 5."""
    num2words = import_extra("num2words", "translation")
    languages = sorted(num2words.CONVERTER_CLASSES)
    if language not in languages:
        raise InputError(f"num2words has no language {language!r}; it has {', '.join(languages)}.")

    def name(number: int) -> str:
        try:
            words: Any = num2words.num2words(number, lang=language)
        except Exception as error:  # num2words raises exceptions of many classes
            raise InputError(
                f"num2words cannot write {number:,} in {language} ({type(error).__name__}); take a smaller --below "
                "or another language."
            ) from error
        return clean_text(str(words))

    return name


def random_numbers(n: int, below: int, seed: int) -> list[int]:
    """Return n different numbers below `below` in random order, except that the numbers below 10 come first.

    There are equally many numbers of 1, 2, 3, … digits; if too few numbers with so many digits exist, all are taken.
    Numbers below 10 come first, so that they are in the training split: a model cannot derive their names from others.

    >>> counts = [len(str(number)) for number in random_numbers(999, 10_000, seed=1)]
    >>> [counts.count(length) for length in (1, 2, 3, 4)]
    [10, 90, 449, 450]
    """
    if below > LARGEST_BELOW:
        raise InputError(f"numbers below {below:,} were asked for; the limit can be at most {LARGEST_BELOW:,}.")
    if n > below:
        raise InputError(
            f"{n:,} pairs for training, dev and test together were asked for, and there are {below:,} numbers below "
            f"{below:,}; ask for fewer."
        )
    # (start, stop) of the numbers with 1, 2, 3, … digits; 0 has one digit
    powers = [10**d for d in range(1, len(str(below))) if 10**d < below]
    bounds = list(pairwise([0, *powers, below]))
    random, numbers = Random(seed_of(seed)), list[int]()
    for index, (start, stop) in enumerate(bounds):
        share = min(stop - start, (n - len(numbers)) // (len(bounds) - index))
        numbers += random.sample(range(start, stop), share)
    # fewer than n if the numbers with the most digits were too few for their share: fill up with other numbers
    for start, stop in reversed(bounds):
        taken = set(numbers)
        numbers += islice((number for number in range(start, stop) if number not in taken), n - len(numbers))
    random.shuffle(numbers)
    return sorted(numbers, key=lambda number: number > 9)


def write_sample(folder: Path, splits: Mapping[str, Pairs], languages: tuple[str, str], *, replace: bool) -> list[Path]:
    """Write each split into two files, one for each language, such as train.en and train.ko; return the paths."""
    files = {
        folder / f"{split}.{language}": [pair[side] for pair in pairs]
        for split, pairs in splits.items()
        for side, language in enumerate(languages)
    }
    existing = [path for path in files if path.exists()]
    if existing and not replace:
        raise InputError(f"{existing[0]} is there already; name another folder with --out, or replace it with --force.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, lines in files.items():
            write_atomically(path, "".join(f"{line}\n" for line in lines))
    except OSError as error:
        raise InputError(f"cannot write to {folder}: {reason(error)}; name another folder with --out.") from error
    return list(files)
