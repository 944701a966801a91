"""Tests of the cleaned copy of a corpus: the pairs and counts of the corpus itself, also when read several times."""

from regard.text.clean_copy import CleanCopy
from regard.text.parallel import Parallel, Report

SOURCES = ["\ufeff a  dog ", "", "tab\there", "line\u2028separator", "뱀", "form\x0cfeed"]
TARGETS = ["ein Hund\r", "leer", "ein\u00a0Tab", "e\u0301", "snake\x00", "zwei▁Wörter"]


def test_a_copy_has_the_pairs_and_the_counts_of_its_corpus(tmp_path):
    for name, lines in (("source", SOURCES), ("target", TARGETS)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
    parallel, expected = Parallel(tmp_path / "source", tmp_path / "target"), Report()
    pairs = list(parallel.pairs(expected))
    copy = CleanCopy(parallel, tmp_path / "clean.tsv")
    assert list(copy.write()) == list(copy.pairs()) == list(copy.pairs()) == pairs
    assert len(pairs) == 5
    assert copy.counts == expected
