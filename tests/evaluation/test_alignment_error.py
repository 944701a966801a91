"""The alignment error rate by hand, and the right alignments of the names of numbers."""

import pytest

from regard.evaluation.alignment_error import ReferenceAlignment, alignment_error_rate


def test_the_rate_of_one_pair_by_hand():
    reference = ReferenceAlignment(sure=frozenset({(0, 0), (1, 1), (2, 2)}), possible=frozenset({(3, 2)}))
    # A∩S = 2, A∩P = 3, |A| = 4, |S| = 3
    assert alignment_error_rate([({(0, 0), (1, 1), (3, 2), (0, 2)}, reference)]) == pytest.approx(1 - 5 / 7)
    assert alignment_error_rate([(reference.sure, reference)]) == 0
    assert alignment_error_rate([({(1, 0), (2, 1)}, reference)]) == 1
    assert alignment_error_rate([]) == 0


def test_sentence_pairs_are_counted_together():
    one, other = ReferenceAlignment(sure=frozenset({(0, 0)})), ReferenceAlignment(sure=frozenset({(0, 0), (1, 1)}))
    assert alignment_error_rate([({(0, 0)}, one), ({(0, 1)}, other)]) == pytest.approx(1 - 2 / 5)
