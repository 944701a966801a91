"""The split into training and dev pairs: no sentence of the dev pairs is trained on, in either language."""

from dataclasses import replace

import pytest

from regard.text.parallel import CleanCopy, Parallel
from regard.training.data.split import Split, largest_dev_rank, random_rank


@pytest.fixture
def split_of(tmp_path, settled):

    def split(pairs, n_dev):
        for side, name in enumerate(("source", "target")):
            (tmp_path / name).write_text("".join(f"{pair[side]}\n" for pair in pairs))
        corpus = CleanCopy(Parallel(tmp_path / "source", tmp_path / "target"), tmp_path / "clean.tsv")
        assert list(corpus.write()) == pairs
        config = settled(seed=5)
        return Split.of([corpus], {}, replace(config, data=replace(config.data, dev_pairs=n_dev)))

    return split


def test_no_dev_sentence_is_trained_on_in_either_language(split_of):
    pairs = [(f"source {n % 137}", f"target {n - (n % 5 == 0)}") for n in range(149)]
    split = split_of(pairs, 17)
    train, dev = list(split.training_pairs()), list(split.dev_pairs())
    assert sorted(train + dev) == sorted(pairs)
    assert dev
    for side in range(2):
        assert not {pair[side] for pair in train} & {pair[side] for pair in dev}


def test_where_each_target_stands_once_all_chosen_sources_are_held_out(split_of):
    split = split_of([(f"source {n}", f"target {n}") for n in range(31)], 7)
    assert len(list(split.dev_pairs())) == 7


def test_where_every_target_is_also_trained_on_the_sources_alone_are_held_out(split_of):
    split = split_of([(f"source {n}", "yes") for n in range(31)], 7)
    assert (len(list(split.dev_pairs())), len(list(split.training_pairs()))) == (7, 24)


def test_dev_pairs_of_a_file_that_are_trained_on_are_counted(tmp_path, settled):
    pairs = {"train": [(f"source {n}", f"target {n}") for n in range(31)]}
    pairs["dev"] = [*pairs["train"][:3], *pairs["train"][:1], ("source 4", "another"), ("another", "target 4")]
    for name, of in pairs.items():
        for side in range(2):
            (tmp_path / f"{name}{side}").write_text("".join(f"  {pair[side]}\r\n" for pair in of))
    corpus = CleanCopy(Parallel(tmp_path / "train0", tmp_path / "train1"), tmp_path / "clean.tsv")
    assert list(corpus.write()) == pairs["train"]
    split = Split.of([corpus], {"dev source": tmp_path / "dev0", "dev target": tmp_path / "dev1"}, settled())
    remark = "dev pairs that are training pairs, too: 3 of 5; new texts get worse scores"
    assert split.remark_on_trained_dev_pairs() == remark
    assert replace(split, corpora=()).remark_on_trained_dev_pairs() == ""


@pytest.mark.parametrize("at_once", [7, 100_000])
def test_dev_pairs_are_as_many_as_wanted_and_equal_texts_stay_together(at_once, monkeypatch):
    monkeypatch.setattr("regard.training.data.split.RANKS_AT_ONCE", at_once)
    texts = [f"text {n % 300}" for n in range(900)]
    limit = largest_dev_rank(texts, 30, seed=7)
    assert limit == sorted({random_rank(text, 7) for text in texts})[29]
    chosen = {text for text in texts if random_rank(text, 7) <= limit}
    assert len(chosen) == 30
    assert largest_dev_rank(dict.fromkeys(texts), 30, seed=7) == limit
    other = {text for text in texts if random_rank(text, 8) <= largest_dev_rank(dict.fromkeys(texts), 30, seed=8)}
    assert len(chosen & other) < 15  # 30 of 300 texts by chance: 3 are expected
    assert largest_dev_rank([], 5, seed=1) == largest_dev_rank(["a"], 0, seed=1) == -1
    assert largest_dev_rank(["a"], 5, seed=1) == random_rank("a", 1)
