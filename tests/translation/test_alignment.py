"""Tests of alignments: merging the weights of pieces into weights of words, by hand; the aligned pairs of words."""

import torch
from torch.testing import assert_close

from regard.translation.alignment import Alignment


def test_merging_by_hand():
    """Two target words of pieces 2 + 1, two source words of pieces 1 + 2, EOS last on both sides."""
    weights = torch.tensor(
        [
            [0.50, 0.25, 0.125, 0.125],
            [0.25, 0.25, 0.250, 0.250],
            [0.00, 0.50, 0.250, 0.250],
            [0.10, 0.20, 0.300, 0.400],
        ]
    )
    expected = torch.tensor([[0.375, 0.4375], [0.0, 0.75]])
    alignment = Alignment(
        source_words=("I", "am"),
        target_words=("Ich", "bin."),
        source_pieces=("▁I", "▁a", "m", "</s>"),
        target_pieces=("▁I", "ch", "▁bin.", "</s>"),
        piece_weights=weights,
        source_word_of=(0, 1, 1),
        target_word_of=(0, 0, 1),
    )
    assert_close(alignment.weights, expected)
    assert alignment.source_word_of_target_piece == {0: 0, 1: 1, 2: 1}
    assert alignment.pairs == ((0, 0), (1, 0), (1, 1))
    assert alignment.pharaoh == "0-0 1-0 1-1"
    assert repr(alignment) == "Alignment('0-0 1-0 1-1', 2 source words, 2 target words)"


def test_of_equal_weights_the_first_is_taken_and_pairs_are_in_order():
    alignment = Alignment(
        source_words=("a", "b"),
        target_words=("c", "d"),
        source_pieces=("▁a", "▁b", "</s>"),
        target_pieces=("▁c", "▁d", "</s>"),
        piece_weights=torch.tensor([[0.1, 0.6, 0.3], [0.25, 0.25, 0.5], [0.0, 0.0, 1.0]]),
        source_word_of=(0, 1),
        target_word_of=(0, 1),
    )
    assert alignment.pharaoh == "0-1 1-0"


def test_a_word_without_a_piece_looks_at_nothing_and_nothing_looks_at_it():
    alignment = Alignment(
        source_words=("\x01", "a"),
        target_words=("c", "\x01", "d"),
        source_pieces=("▁a", "</s>"),
        target_pieces=("▁c", "▁d", "</s>"),
        piece_weights=torch.tensor([[0.6, 0.4], [0.25, 0.75], [0.0, 1.0]]),
        source_word_of=(1,),
        target_word_of=(0, 2),
    )
    assert alignment.pairs == ((1, 0), (1, 2))
    assert_close(alignment.weights, torch.tensor([[0.0, 0.6], [0.0, 0.0], [0.0, 0.25]]))


def test_a_text_without_words_has_no_pairs():
    alignment = Alignment(
        source_words=(),
        target_words=(),
        source_pieces=("</s>",),
        target_pieces=("</s>",),
        piece_weights=torch.ones(1, 1),
        source_word_of=(),
        target_word_of=(),
    )
    assert (alignment.pairs, alignment.pharaoh) == ((), "")


def test_punctuation_at_a_word_does_not_decide_where_the_word_looks():
    # 톰이 왔다. → Tom came. The full stop looks at the source's end, the words look at each other crosswise.
    weights = torch.tensor(
        [
            [0.1, 0.7, 0.1, 0.1],  # ▁Tom looks at 왔다
            [0.6, 0.2, 0.1, 0.1],  # ▁came looks at 톰이
            [0.0, 0.1, 0.8, 0.1],  # . looks at .
            [0.0, 0.0, 0.0, 1.0],
        ]
    )
    alignment = Alignment(
        source_words=("톰이", "왔다."),
        target_words=("Tom", "came."),
        source_pieces=("▁톰이", "▁왔다", ".", "</s>"),
        target_pieces=("▁Tom", "▁came", ".", "</s>"),
        piece_weights=weights,
        source_word_of=(0, 1, 1),
        target_word_of=(0, 1, 1),
    )
    assert_close(alignment.weights, torch.tensor([[0.1, 0.7], [0.6, 0.2]]))
    assert alignment.pairs == ((1, 0), (0, 1))


def test_a_word_of_punctuation_alone_is_its_punctuation_without_the_space_before_it():
    alignment = Alignment(
        source_words=("a", "…"),
        target_words=("—",),
        source_pieces=("▁a", "▁", "…", "</s>"),
        target_pieces=("▁", "—", "</s>"),
        piece_weights=torch.tensor([[0.5, 0.25, 0.0, 0.25], [0.0, 0.25, 0.5, 0.25], [0.0, 0.0, 0.0, 1.0]]),
        source_word_of=(0, 1, 1),
        target_word_of=(0, 0),
    )
    assert_close(alignment.weights, torch.tensor([[0.0, 0.5]]))
    assert alignment.pairs == ((1, 0),)
