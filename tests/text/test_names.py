"""Names that stand in both texts of many pairs; cases by hand."""

import pytest

from regard.text.names import LEAST_PAIRS, names_in

TOM = [("톰은 왔다", "Today Tom came"), ("톰이 잤다", "Yes, Tom slept"), ("어제 톰을 봤다", "We saw Tom")]
RAIN = [("비가 왔다", "Then rain came")] * 60


def test_names_are_found_from_either_side():
    assert names_in(TOM * 9 + RAIN, capitals=1) == {"톰": "Tom"}
    assert names_in([(target, source) for source, target in TOM * 9 + RAIN], capitals=0) == {"Tom": "톰"}


@pytest.mark.parametrize(
    ("others", "reason"),
    [
        ([("숫고양이가 왔다", "a tom came")], "a word that is also written without a capital is no name"),
        ([("톰은 왔다", "he came")] * 15, "a word that the other language translates otherwise is no name"),
        ([("그는 왔다", "here Tom came")] * 15, "a name that the other language often leaves out has no counterpart"),
    ],
)
def test_what_is_no_name(others, reason):
    assert names_in(TOM * 9 + RAIN + others, capitals=1) == {}, reason


def test_words_that_only_begin_sentences_are_no_names():
    assert names_in([("톰은 왔다", "Tom came"), ("톰이 잤다. 톰", "slept. Tom")] * 9, capitals=1) == {}


def test_a_name_needs_five_pairs():
    assert names_in(TOM[:1] * (LEAST_PAIRS - 1), capitals=1) == {}
    assert len(names_in(TOM[:1] * LEAST_PAIRS, capitals=1)) == 1


def test_of_equally_similar_counterparts_the_longest_is_taken():
    mary = [("메리는 왔다", "Today Mary came"), ("메리가 왔다", "Today Mary came")] * 9
    assert names_in(mary + RAIN, capitals=1) == {"메리": "Mary"}
