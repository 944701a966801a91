"""Tests of numbers as text, and of the positions that are shown if not all fit: examples, and laws."""

import math

from hypothesis import given
from hypothesis import strategies as st

from regard.views.terminal.number_text import aligned, format_number, positions_to_show, with_gaps


def test_a_number_that_is_exact_has_no_zeros_and_one_that_is_rounded_has_all():
    assert aligned([[2.0, 1.5], [-1 / 3, 10.0]], 4) == [[" 2     ", " 1.5   "], ["-0.3333", "10     "]]
    assert aligned([[-math.inf, 0.25]], 4) == [["  −∞", "0.25"]]
    assert [format_number(number, 4) for number in (0.1, 1 + 1e-15, 0.99999, 1e-9, 0.0, -0.0)] == [
        "0.1", "1", "1.0000", "0.0000", "0", "0",
    ]  # fmt: skip


def test_very_large_and_very_small_numbers_are_written_with_an_exponent():
    assert aligned([[1.5e12, -2.0], [0.0, 3.0]], 2) == [[" 1.50e+12", "-2.00e+00"], [" 0       ", " 3.00e+00"]]
    assert aligned([[1.5e-7, 0.0]], 2) == [["1.50e-07", "0       "]]


@given(st.lists(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), min_size=1, max_size=4), st.integers(0, 6))
def test_aligned_numbers_are_equally_wide_and_within_half_a_digit(rows, digits):
    texts = aligned(rows, digits)
    assert len({len(text) for row in texts for text in row}) == 1
    scientific = "e" in "".join(text for row in texts for text in row)
    for row, told in zip(rows, texts, strict=True):
        for number, text in zip(row, told, strict=True):
            tolerance = abs(number) * 10.0**-digits if scientific else 0.5 * 10.0**-digits
            assert abs(float(text) - number) <= tolerance * (1 + 1e-9) + 1e-9 * abs(number)


@given(st.integers(1, 60), st.lists(st.integers(0, 59), max_size=4), st.integers(1, 20))
def test_shown_positions_are_in_order_with_gaps_exactly_where_some_are_missing(count, notable, limit):
    notable = [position for position in notable if position < count]
    found = positions_to_show(count, notable, lambda shown: len(shown) <= limit)
    shown = [position for position in found if position is not None]
    assert shown == sorted(set(shown))
    assert len(shown) >= 1
    expected, before = [], -1
    for position in [*shown, count]:
        expected += [None] if position > before + 1 else []
        expected += [position] if position < count else []
        before = position
    assert found == expected
    if count <= limit:
        assert shown == list(range(count))


def test_a_gap_of_one_position_is_a_gap():
    assert with_gaps({1, 3}, 5) == [None, 1, None, 3, None]


def test_without_decimals_small_numbers_are_rounded_to_0_and_1():
    weights = [[0.1361, 0.4319, 0.4319], [0.0009, 0.9088, 0.0903]]
    assert aligned(weights, 0) == [["0", "0", "0"], ["0", "1", "0"]]
    assert aligned([[0.004, 0.0]], 2) == [["4.00e-03", "0       "]]
