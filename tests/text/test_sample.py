"""Sample text: correct names, numbers of every length, no number twice, equal text for equal seeds, messages."""

import re

import pytest
from num2words import CONVERTER_CLASSES, num2words
from refusals import refusal

from regard import InputError
from regard.text.cleaning import clean_text
from regard.text.sample import random_numbers, sample, write_sample


def test_names_are_those_of_num2words_and_no_number_is_twice():
    splits = sample("de", "ko", {"train": 400, "dev": 30, "test": 70}, seed=7)
    assert {split: len(pairs) for split, pairs in splits.items()} == {"train": 400, "dev": 30, "test": 70}
    pairs = [pair for split in splits.values() for pair in split]
    assert len({source for source, _ in pairs}) == len({target for _, target in pairs}) == 500
    names = {num2words(n, lang="de"): num2words(n, lang="ko") for n in random_numbers(500, 1_000_000, 7)}
    assert dict(pairs) == names
    assert sample("de", "ko", {"train": 400, "dev": 30, "test": 70}, seed=7) == splits
    assert sample("de", "ko", {"train": 400, "dev": 30, "test": 70}, seed=8) != splits


@pytest.mark.parametrize(
    ("n", "below"), [(1, 1), (5, 5), (10, 10), (100, 100), (99, 100), (1234, 5000), (7, 7_777_777), (0, 9)]
)
def test_numbers_are_different_and_below(n, below):
    numbers = random_numbers(n, below, seed=3)
    assert len(numbers) == len(set(numbers)) == n
    assert all(0 <= number < below for number in numbers)


def test_every_length_is_well_represented_in_every_split():
    numbers = random_numbers(7000, 1_000_000, seed=7)
    lengths = [sum(len(str(number)) == n for number in numbers) for n in range(1, 7)]
    assert lengths == [10, 90, 900, 2000, 2000, 2000]
    assert sorted(numbers[:10]) == list(range(10))
    test = [len(str(number)) for number in numbers[-500:]]
    assert all(100 < test.count(n) < 190 for n in (4, 5, 6))


@pytest.mark.parametrize("language", sorted(set(CONVERTER_CLASSES) - {"am", "en"}))
def test_every_language_but_one_names_all_numbers_below_a_million(language):
    pairs = sample("en", language, {"train": 60}, seed=2)["train"]
    names = [name for _, name in pairs]
    assert len(set(names)) == 60
    assert all(clean_text(name) == name and not re.search(r"\d", name) for name in names)


def test_files_hold_the_pairs_and_are_replaced_only_on_request(tmp_path):
    splits = sample("en", "fr", {"train": 5, "dev": 2, "test": 2}, seed=1)
    paths = write_sample(tmp_path / "new", splits, ("en", "fr"), replace=False)
    assert sorted(path.name for path in paths) == sorted(path.name for path in (tmp_path / "new").iterdir())
    english, french = ((tmp_path / "new" / f"train.{name}").read_text().splitlines() for name in ("en", "fr"))
    assert list(zip(english, french, strict=True)) == splits["train"]
    assert refusal(InputError, write_sample, tmp_path / "new", splits, ("en", "fr"), replace=False) == (
        f"{tmp_path}/new/train.en is there already; name another folder with --out, or replace it with --force."
    )
    assert write_sample(tmp_path / "new", splits, ("en", "fr"), replace=True) == paths
    (tmp_path / "file").write_text("")
    assert refusal(InputError, write_sample, tmp_path / "file" / "in", splits, ("en", "fr"), replace=False) == (
        f"cannot write to {tmp_path}/file/in: not a directory; name another folder with --out."
    )


def test_languages_and_limits_that_num2words_cannot_follow_are_refused():
    assert refusal(InputError, sample, "en", "en", {"train": 1}) == "both languages are en; name two different ones."
    message = refusal(InputError, sample, "en", "kr", {"train": 1})
    assert message.startswith("num2words has no language 'kr'; it has am, ar, az, ")
    assert message.endswith(", tr, uk, vi.")
    assert re.fullmatch(
        r"num2words cannot write \d+,\d+ in am \(TypeError\); take a smaller --below or another language.",
        refusal(InputError, sample, "en", "am", {"train": 30}),
    )
    assert refusal(InputError, sample, "en", "ko", {"train": 90, "test": 11}, below=100) == (
        "101 pairs for training, dev and test together were asked for, and there are 100 numbers below 100; ask for "
        "fewer."
    )
    message = refusal(InputError, sample, "en", "te", {"train": 30}, below=10**15)
    assert message.startswith("num2words cannot write ")
    assert message.endswith("take a smaller --below or another language.")
    assert refusal(InputError, sample, "en", "ko", {"train": 1}, below=10**19) == (
        "numbers below 10,000,000,000,000,000,000 were asked for; the limit can be at most 1,000,000,000,000,000,000."
    )
