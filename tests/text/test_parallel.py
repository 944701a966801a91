"""Parallel files as they come: tidied, counted, refused by line."""

import gzip

import pytest

from regard import InputError
from regard.text.parallel import Parallel, Report, dev_limit, place_of, tidied


@pytest.fixture
def files(tmp_path):
    """Write two files and give the parallel text of them."""

    def write(source: bytes, target: bytes, names=("a.de", "a.en")) -> Parallel:
        for name, content in zip(names, (source, target), strict=True):
            (tmp_path / name).write_bytes(content)
        return Parallel(*(tmp_path / name for name in names))

    return write


def refusal(parallel):
    with pytest.raises(InputError) as refused:
        list(parallel.pairs())
    return str(refused.value)


def test_raw_text_is_tidied(files):
    raw = "\ufeffein  Hund \r\n\tzwei\u00a0Hunde\x00\r\n  \r\ndrei\u2028vier\r\nletzte".encode()
    report = Report()
    pairs = list(files(raw, b"one dog\ntwo dogs\nnothing\n three four\nlast\n").pairs(report))
    assert pairs == [
        ("ein Hund", "one dog"),
        ("zwei Hunde", "two dogs"),
        ("drei vier", "three four"),
        ("letzte", "last"),
    ]
    assert report == Report(read=5, empty=1)
    report.kept = 4
    assert str(report) == "5 pairs read, 4 kept; left out: 1 empty"
    assert report.as_dict() == {"read": 5, "empty": 1, "over_long": 0, "mismatched": 0, "kept": 4}


def test_gzip_is_read_too(files):
    parallel = files(gzip.compress(b"ein\nzwei\n"), b"one\ntwo\n", names=("a.de.gz", "a.en"))
    assert list(parallel.pairs()) == [("ein", "one"), ("zwei", "two")]


def test_only_line_ends_end_lines(files):
    odd = "eins\u2028zwei\x85drei\x0bvier\x0cfünf\x1csechs\n".encode()
    assert list(files(odd, b"x\n").pairs()) == [("eins zwei drei vier fünf sechs", "x")]


def test_what_is_not_utf8_is_refused_by_its_line(files):
    parallel = files(b"ein\nzwei\nSch\xfcler\n", b"one\ntwo\nthree\n")
    assert refusal(parallel) == (
        f"{parallel.source}, line 3: not UTF-8 (byte 0xFC at place 4); "
        "convert the file first, for instance with iconv -f LATIN1 -t UTF-8."
    )
    parallel = files(b"ein\n", b"\xed\xa0\x80\n")  # half of a surrogate pair
    assert refusal(parallel).startswith(f"{parallel.target}, line 1: not UTF-8 (byte 0xED at place 1)")


@pytest.mark.parametrize(("source", "target", "counts"), [(b"a\nb\nc", b"a\n", (3, 1)), (b"", b"a\n", (0, 1))])
def test_unequal_files_are_refused_with_both_counts(files, source, target, counts):
    parallel = files(source, target)
    assert refusal(parallel) == (
        f"{parallel.source} has {counts[0]} lines and {parallel.target} has {counts[1]}; line by line they must be "
        "translations of each other, so both must have as many."
    )


def test_other_refusals(files, tmp_path):
    parallel = files(b"", b"")
    assert refusal(parallel) == (
        f"{parallel.source} and {parallel.target} are empty; give files with a sentence on each line."
    )
    missing = Parallel(tmp_path / "none", parallel.target)
    assert refusal(missing) == f"cannot read {tmp_path}/none: No such file or directory."
    assert refusal(Parallel(tmp_path, parallel.target)) == f"cannot read {tmp_path}: Is a directory."
    (tmp_path / "link").symlink_to(parallel.source)
    assert refusal(Parallel(parallel.source, tmp_path / "link")) == (
        f"{parallel.source} and {tmp_path}/link are one file; give the translations as the second one."
    )
    (tmp_path / "torn.gz").write_bytes(gzip.compress(b"ein\n" * 999)[:-9])
    assert refusal(Parallel(tmp_path / "torn.gz", parallel.target)).startswith(f"cannot read {tmp_path}/torn.gz: ")
    (tmp_path / "plain.gz").write_bytes(b"ein\n")
    assert refusal(Parallel(tmp_path / "plain.gz", parallel.target)).startswith(f"cannot read {tmp_path}/plain.gz: ")


def test_tidy_text_stays_as_it_is():
    assert tidied("l'été — 日本 語") == "l'été — 日本 語"


# Pairs to judge by


def test_dev_pairs_are_as_many_as_wanted_and_equal_texts_stay_together():
    texts = [f"text {n % 300}" for n in range(900)]
    limit = dev_limit(dict.fromkeys(texts), 30, seed=7)
    chosen = {text for text in texts if place_of(text, 7) <= limit}
    assert len(chosen) == 30
    assert dev_limit(dict.fromkeys(texts), 30, seed=7) == limit
    other = {text for text in texts if place_of(text, 8) <= dev_limit(dict.fromkeys(texts), 30, seed=8)}
    assert len(chosen & other) < 15
    assert dev_limit([], 5, seed=1) == -1
    assert dev_limit(["a"], 5, seed=1) == place_of("a", 1)
