"""Sample text: the names of numbers in two languages, as many as are wanted, the same for the same seed.

A text for trying things out that nothing has to be downloaded for, and a translation with a right answer: how a number
is called in a language has rules that a model can learn, and no number of the test is in the training.
"""

from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from regard.atomic_files import write_whole
from regard.errors import InputError, needs, reason
from regard.text.keyed_random import permuted

SPLITS = "train", "dev", "test"

MOST = 10**18
"""What numbers can be below: they are drawn as integers of 64 binary digits."""

Pairs = list[tuple[str, str]]


def sample(
    source: str, target: str, sizes: Mapping[str, int], *, seed: int = 1, below: int = 1_000_000
) -> dict[str, Pairs]:
    """The names of numbers in two languages, by split; no number is twice.

    Args:
        source: a language of num2words, such as en.
        sizes: how many pairs each split has.
        below: every number is less.

    Raises:
        InputError: languages that are unknown, the same, or cannot write such numbers; more pairs than numbers.

    >>> sample("en", "ko", {"train": 2}, seed=3)["train"]
    [('four hundred and forty-one thousand, seven hundred and thirty-nine', '사십사만 천칠백삼십구'),
     ('fifty-eight thousand, six hundred and fifty-five', '오만 팔천육백오십오')]
    """
    if source == target:
        raise InputError(f"both languages are {source}; name two different ones.")
    names = [namer(source), namer(target)]
    numbers = drawn(sum(sizes.values()), below, seed)
    pairs = [(names[0](number), names[1](number)) for number in numbers]
    splits, start = {}, 0
    for split, size in sizes.items():
        splits[split], start = pairs[start : start + size], start + size
    return splits


def namer(language: str) -> Callable[[int], str]:
    """How numbers are called in a language.

    Raises:
        InputError: num2words does not know it; and, from the function, a number that it cannot write.
    """
    num2words = needs("num2words", "translation")
    known = sorted(num2words.CONVERTER_CLASSES)
    if language not in known:
        raise InputError(f"num2words has no language {language!r}; it has {', '.join(known)}.")

    def name(number: int) -> str:
        try:
            words: Any = num2words.num2words(number, lang=language)
        except Exception as error:  # num2words raises whatever goes wrong in a language's own code
            raise InputError(
                f"num2words cannot write {number:,} in {language} ({type(error).__name__}); take a smaller --below "
                "or another language."
            ) from error
        return " ".join(str(words).split())

    return name


def drawn(n: int, below: int, seed: int) -> list[int]:
    """Different numbers in a drawn order, with as many of each length as there are, up to equal shares.

    Those of one digit come first, so that they are learned from: their names cannot be made of the names of others.

    Raises:
        InputError: there are fewer such numbers.

    >>> [len([number for number in drawn(999, 10_000, seed=1) if len(str(number)) == n]) for n in (1, 2, 3, 4)]
    [10, 90, 449, 450]
    """
    if below > MOST:
        raise InputError(f"numbers below {below:,} were asked for; they can be drawn up to {MOST:,}.")
    if n > below:
        raise InputError(f"{n:,} pairs were asked for, and there are {below:,} numbers below {below:,}; ask for fewer.")
    lengths = [
        (10**d if d else 0, min(10 ** (d + 1), below)) for d in range(len(str(below))) if 10**d < below or d == 0
    ]
    numbers: list[int] = []
    for place, (first, end) in enumerate(lengths):
        wanted = min(end - first, (n - len(numbers)) // (len(lengths) - place))
        numbers += (first + permuted(np.arange(wanted), end - first, (seed, place))).tolist()
    for first, end in reversed(lengths):  # what the shares leave over
        taken = set(numbers)
        numbers += islice((number for number in range(first, end) if number not in taken), n - len(numbers))
    order = permuted(np.arange(n), max(n, 1), (seed, -1))
    return sorted((numbers[place] for place in order), key=lambda number: number > 9)


def write_sample(folder: Path, splits: Mapping[str, Pairs], languages: tuple[str, str], *, replace: bool) -> list[Path]:
    """Write each split as a file for each language.

    Raises:
        InputError: a file that is there already, where none is to be replaced; a folder that cannot be written.
    """
    files = {
        folder / f"{split}.{language}": [pair[side] for pair in pairs]
        for split, pairs in splits.items()
        for side, language in enumerate(languages)
    }
    there = [path for path in files if path.exists()]
    if there and not replace:
        raise InputError(f"{there[0]} is there already; name another folder with --out, or replace it with --force.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, lines in files.items():
            write_whole(path, "".join(f"{line}\n" for line in lines))
    except OSError as error:
        raise InputError(f"cannot write to {folder}: {reason(error)}; name another folder with --out.") from error
    return list(files)
