"""Parallel files: cleaning, counts, and messages with line numbers."""

import gzip
import os
from unicodedata import normalize

import pytest
from refusals import refusal

from regard import InputError
from regard.text.parallel import CleanCopy, Parallel, Report


@pytest.fixture
def files(tmp_path):

    def write(source: bytes, target: bytes, names=("a.de", "a.en")) -> Parallel:
        for name, content in zip(names, (source, target), strict=True):
            (tmp_path / name).write_bytes(content)
        return Parallel(*(tmp_path / name for name in names))

    return write


def refused(parallel):
    """Return why a pair of files is refused."""
    return refusal(InputError, lambda: list(parallel.pairs()))


def test_raw_text_is_cleaned(files):
    raw = "\ufeffein  Hund \r\n\tzwei\u00a0Hunde\x00\r\n  \r\ndrei\u2028vier\r\nletzte".encode()
    report = Report()
    pairs = list(files(raw, b"one dog\ntwo dogs\nnothing\n three four\nlast\n").pairs(report))
    expected = [("ein Hund", "one dog"), ("zwei Hunde", "two dogs"), ("drei vier", "three four"), ("letzte", "last")]
    assert pairs == expected
    counts = {"byte_order_marks": 1, "carriage_returns": 4, "extra_spaces": 5, "control_characters": 1, "empty": 1}
    assert report == Report(read=5, **counts)
    report.kept = 4
    assert report.left_out() == "1 empty"
    assert report.table().splitlines() == [
        "      5  pairs read",
        "      1  files with a byte order mark, removed",
        "      4  lines with a carriage return, removed",
        "      5  lines with extra spaces, made one",
        "      1  lines with control characters, removed",
        "      1  pairs with an empty text, left out",
        "      4  pairs to learn from",
    ]
    assert Report().table() == "      0  pairs read\n      0  pairs to learn from"


def test_clean_files_have_no_counts(files):
    report = Report()
    list(files("l'été — 日本 語\n".encode() * 3, b"a b\n" * 3).pairs(report))
    assert report == Report(read=3)


def test_each_kind_of_cleaning_is_counted(files):
    report = Report()
    list(files("a\n\ufeffb\nc\x07d\n".encode(), b"a  b\nc \n\xc2\xa0d\n").pairs(report))
    assert report == Report(read=3, control_characters=2, extra_spaces=3)


def test_gzip_is_read_too(files):
    for name in ("a.de.gz", "a.de"):  # whatever its name
        parallel = files(gzip.compress(b"\xef\xbb\xbfein\nzwei\n"), b"one\ntwo\n", names=(name, "a.en.gz"))
        assert list(parallel.pairs()) == [("ein", "one"), ("zwei", "two")]


def test_only_line_ends_end_lines(files):
    odd = "eins\u2028zwei\x85drei\x0bvier\x0cfünf\x1csechs\n".encode()
    assert list(files(odd, b"x\n").pairs()) == [("eins zwei drei vier fünf sechs", "x")]
    assert list(files(b"eins\rzwei\n\r\n\r\r\n", b"x\ny\nz\n").pairs()) == [("eins zwei", "x")]


def test_letters_in_parts_are_composed_and_counted(files):
    parts = normalize("NFD", "뱀은 위험하다")
    assert len(parts) > len("뱀은 위험하다")
    report = Report()
    pairs = list(files(f"{parts}\n뱀\n".encode(), normalize("NFD", "café\ncafé\n").encode()).pairs(report))
    assert pairs == [("뱀은 위험하다", "café"), ("뱀", "café")]
    assert report.composed == 3
    assert "      3  lines with letters in parts, composed" in report.table()


@pytest.mark.parametrize(
    ("source", "line", "byte", "encoding"),
    [
        ("뱀은 위험하다\n".encode("euc-kr"), 1, "0xB9 at position 1", "CP949"),
        (b"ein\nzwei\nSch\xfcler\n", 3, "0xFC at position 4", "LATIN1"),
        ("ein Hund\n".encode("utf-16"), 1, "0xFF at position 1", "UTF-16"),
    ],
)
def test_a_line_that_is_not_utf8_is_refused_by_its_number(files, source, line, byte, encoding):
    parallel = files(source, b"one\ntwo\nthree\n")
    assert refused(parallel) == (
        f"{parallel.source}, line {line}: not UTF-8 (byte {byte}); convert the file first, for instance with iconv -f "
        f"{encoding} -t UTF-8."
    )
    parallel = files("뱀\none\n".encode() + source, b"a\n" * 9)
    assert refused(parallel) == (
        f"{parallel.source}, line {line + 2}: not UTF-8 (byte {byte}); convert only the lines that are not UTF-8, "
        f"since earlier lines are UTF-8, for instance with iconv -f {encoding} -t UTF-8."
    )
    parallel = files(b"ein\n", b"\xed\xa0\x80\n")  # half of a surrogate pair
    assert refused(parallel).startswith(f"{parallel.target}, line 1: not UTF-8 (byte 0xED at position 1)")


def test_a_line_without_end_is_not_read_into_memory(files, monkeypatch):
    monkeypatch.setattr("regard.text.parallel.LONGEST_LINE", 10)
    assert list(files(b"123456789\n1234567890", b"a\nb\n").pairs()) == [("123456789", "a"), ("1234567890", "b")]
    parallel = files(b"1\n" + b"1" * 50, b"a\nb\n")
    assert refused(parallel) == (
        f"{parallel.source}, line 2: longer than 10 bytes; give a file with a sentence on each line."
    )


@pytest.mark.parametrize(
    ("source", "target", "counts"),
    [(b"a\nb\nc", b"a\n", (3, 1)), (b"", b"a\n", (0, 1)), (b"a\n", b"a\nb\n\xff\n\n", (1, 4))],
)
def test_unequal_files_are_refused_with_both_counts(files, source, target, counts):
    parallel = files(source, target)
    assert refused(parallel) == (
        f"{parallel.source} has {counts[0]} lines and {parallel.target} has {counts[1]}; each line must be the "
        "translation of the same line of the other file, so both files must have the same number of lines."
    )


def test_files_without_lines_or_that_cannot_be_read_twice_are_refused(files, tmp_path):
    parallel = files(b"", b"")
    assert refused(parallel) == (
        f"{parallel.source} and {parallel.target} are empty; give files with a sentence on each line."
    )
    missing = Parallel(tmp_path / "none", parallel.target)
    assert refused(missing) == f"there is no file {tmp_path}/none; nearest: a.de, a.en."
    missing = Parallel(tmp_path / "none" / "a.de", parallel.target)
    assert refused(missing) == f"there is no file {tmp_path}/none/a.de, and no folder {tmp_path}/none."
    assert refused(Parallel(tmp_path, parallel.target)) == (
        f"cannot read {tmp_path}: it is a folder; name a file in it."
    )
    os.mkfifo(tmp_path / "pipe")
    assert refused(Parallel(tmp_path / "pipe", parallel.target)) == (
        f"cannot read {tmp_path}/pipe: it is a pipe or a device, and the text is read twice; write it to a file."
    )
    (tmp_path / "link").symlink_to(parallel.source)
    assert refused(Parallel(parallel.source, tmp_path / "link")) == (
        f"{parallel.source} and {tmp_path}/link are one file; give the translations as the second."
    )
    packed = gzip.compress(b"ein\n" * 999)
    for damaged in (packed[:-9], packed[:12] + b"\xff\xff\xff" + packed[15:]):
        (tmp_path / "torn.gz").write_bytes(damaged)
        assert refused(Parallel(tmp_path / "torn.gz", parallel.target)).startswith(f"cannot read {tmp_path}/torn.gz: ")


def test_a_clean_copy_has_the_pairs_and_the_counts_of_its_corpus(files, tmp_path):
    sources = "\ufeff a  dog \n\ntab\there\nline\u2028separator\n뱀\nform\x0cfeed\n"
    targets = "ein Hund\r\nleer\nein\u00a0Tab\ne\u0301\nsnake\x00\nzwei▁Wörter\n"
    parallel, expected = files(sources.encode(), targets.encode()), Report()
    pairs = list(parallel.pairs(expected))
    copy = CleanCopy(parallel, tmp_path / "clean.tsv")
    assert list(copy.write()) == list(copy.pairs()) == list(copy.pairs()) == pairs
    assert len(pairs) == 5
    assert copy.counts == expected
