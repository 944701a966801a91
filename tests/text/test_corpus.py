"""A corpus on disk: the ids of the texts, pairs that are left out, damaged files."""

import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier

import numpy as np
import pytest
from refusals import refusal

from regard import InputError
from regard.text.corpus import Corpus, write_corpus
from regard.text.parallel import Report
from regard.text.share import Share
from regard.text.vocabulary import Vocabulary


def test_a_corpus_has_the_ids_of_the_texts(tmp_path, written, number_names, vocabularies):
    report, told = Report(), []
    corpus = written(tmp_path, report=report, progress=told.append)
    for n in (0, 1, 350, 699):
        for side, text in enumerate(number_names[n]):
            assert corpus[n][side].tolist() == vocabularies[side].encode(text)
    assert len(corpus) == 700
    assert report.kept == sum(told) == 700
    assert corpus.source.ids.dtype == np.uint16
    pairs = np.array([3, 699, 0])
    assert corpus.target.lengths(pairs).tolist() == [
        len(vocabularies[1].encode(number_names[pair][1])) for pair in pairs
    ]


def test_a_corpus_is_written_in_parts_and_read(tmp_path, written, monkeypatch):
    whole = written(tmp_path / "whole")
    monkeypatch.setattr("regard.text.corpus.PAIRS_PER_CHUNK", 13)
    parts = written(tmp_path / "parts")
    for name in ("source.ids", "source.ends", "target.ids", "target.ends"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "parts" / name).read_bytes()
    again = Corpus(tmp_path / "parts")
    assert len(again) == len(whole)
    assert again[17][0].tolist() == whole[17][0].tolist()
    with pytest.raises(ValueError, match="read-only"):
        parts.source.ids[0] = 1


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("pairs_per_chunk", [13, 20_000])
def test_several_processes_write_the_corpus_of_one(
    tmp_path, number_names, vocabularies, monkeypatch, n, pairs_per_chunk
):
    """The processes are threads; each encodes only its part of the pairs."""
    monkeypatch.setattr("regard.text.corpus.PAIRS_PER_CHUNK", pairs_per_chunk)
    barrier, parts, encoded = Barrier(n), [None] * n, [0] * n

    class Counting(Vocabulary):
        def __init__(self, model, index):
            super().__init__(model)
            self.index = index

        def encode_all(self, texts):
            encoded[self.index] += len(texts)
            return super().encode_all(texts)

    def exchange(index, part):
        parts[index] = part
        barrier.wait(60)
        found = list(parts)
        barrier.wait(60)
        return found

    def write(index):
        own = [Counting(one.model, index) for one in vocabularies]
        report, share = Report(), Share(index, n, partial(exchange, index))
        write_corpus(tmp_path / str(index), pairs, *own, max_tokens=12, max_ratio=2.0, report=report, share=share)
        return report

    pairs, alone = number_names[:601], Report()
    write_corpus(tmp_path / "alone", pairs, *vocabularies, max_tokens=12, max_ratio=2.0, report=alone)
    assert 0 < alone.kept < 601
    with ThreadPoolExecutor(n) as threads:
        assert list(threads.map(write, range(n))) == [alone] * n
    for path in (tmp_path / "alone").iterdir():
        for index in range(n):
            assert (tmp_path / str(index) / path.name).read_bytes() == path.read_bytes(), path.name
    assert sum(encoded) == 2 * 601
    assert max(encoded) <= 2 * (601 / n + 13)


def test_pairs_that_are_too_long_or_mismatched_are_left_out_and_counted(tmp_path, vocabularies):
    source, target = vocabularies
    too_long, mismatched, empty = ("one " * 20, "일 " * 20), ("one two three four five six", "일"), ("▁", "일")
    pairs = [("one", "일"), too_long, mismatched, ("two", "이"), empty]
    report = Report()
    corpus = write_corpus(tmp_path, pairs, source, target, max_tokens=10, max_ratio=2.5, report=report)
    assert len(source.encode(too_long[0])) > 10
    assert (report.empty, report.over_long, report.mismatched, report.kept, len(corpus)) == (1, 1, 1, 2, 2)
    assert report.left_out() == "1 empty, 1 too long, 1 of mismatched lengths"


def test_large_vocabularies_get_larger_numbers(tmp_path, number_names, vocabularies):
    class Large(Vocabulary):
        def __init__(self):
            pass

        def __len__(self):
            return 70_000

        def encode_all(self, texts):
            return [[66_000 + len(text)] for text in texts]

    corpus = write_corpus(tmp_path, number_names[:5], Large(), vocabularies[1], max_tokens=99, max_ratio=99.0)
    assert corpus.source.ids.dtype == np.uint32
    assert corpus[0][0].tolist() == [66_000 + len(number_names[0][0])]


def test_a_corpus_without_a_pair_is_refused(tmp_path, written, number_names):
    for purpose in ("to learn from", "for evaluation"):
        assert refusal(InputError, written, tmp_path, number_names[-3:], max_tokens=0, purpose=purpose) == (
            f"no pair is left {purpose}: 3 too long; give other files, or a larger data.max_tokens or data.max_ratio."
        )


def test_a_damaged_corpus_is_refused(tmp_path, written):
    written(tmp_path)
    ids = (tmp_path / "source.ids").read_bytes()
    (tmp_path / "source.ids").write_bytes(ids[:-2])
    assert refusal(InputError, Corpus, tmp_path) == (
        f"{tmp_path} is not a corpus, or is damaged (source.ids does not have the {len(ids) // 2:,} ids of 700 texts)."
    )
    for content in ("", "[]", json.dumps({"pairs": 3}), "[" * 200_000, '{"pairs": 1e400, "dtype": "uint16"}'):
        (tmp_path / "corpus.json").write_text(content)
        with pytest.raises(InputError, match="is not a corpus, or is damaged"):
            Corpus(tmp_path)


def test_a_half_written_corpus_is_refused(tmp_path, written, monkeypatch):
    written(tmp_path)

    def killed(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr("regard.text.corpus.os.fsync", killed)
    with pytest.raises(KeyboardInterrupt):
        written(tmp_path)
    with pytest.raises(InputError, match="is not a corpus"):
        Corpus(tmp_path)


def test_damaged_ends_and_ids_are_refused(tmp_path, written, vocabularies):
    folder = tmp_path / "data" / "train"
    written(folder)
    ends = np.fromfile(folder / "source.ends", dtype=np.int64)
    ends[[3, 4]] = ends[[4, 3]]
    ends.tofile(folder / "source.ends")
    assert refusal(InputError, Corpus, folder) == (
        f"{folder} is not a corpus, or is damaged (the numbers in source.ends do not ascend from 0)."
    )
    corpus = written(folder)
    ids = np.fromfile(folder / "target.ids", dtype=np.uint16)
    ids[int(corpus.target.ends[5])] = 60_000
    ids.tofile(folder / "target.ids")
    damaged = Corpus(folder, tuple(map(len, vocabularies)))
    damaged.target.rows(np.array([4, 6]))
    assert refusal(InputError, damaged.target.rows, np.array([4, 5])) == (
        f"{folder}/target.ids is damaged: it has the id 60,000, and the vocabulary has {len(vocabularies[1])} "
        f"pieces; delete {tmp_path}/data, and the same command makes it again."
    )
