"""Tests of alignments: merging the weights of pieces into weights of words, by hand; the aligned pairs of words."""

import torch
from torch.testing import assert_close

from regard.translation.alignment import Alignment


def aligned(source, target, weights):
    """Return the alignment of two texts, each given as words, pieces without EOS, and the word of each piece."""
    return Alignment(
        source_words=source[0],
        target_words=target[0],
        source_pieces=(*source[1], "</s>"),
        target_pieces=(*target[1], "</s>"),
        piece_weights=torch.tensor(weights),
        source_word_of=source[2],
        target_word_of=target[2],
    )


def test_merging_by_hand():
    """Two target words of pieces 2 + 1, two source words of pieces 1 + 2, EOS last on both sides."""
    weights = [
        [0.50, 0.25, 0.125, 0.125],
        [0.25, 0.25, 0.250, 0.250],
        [0.00, 0.50, 0.250, 0.250],
        [0.10, 0.20, 0.300, 0.400],
    ]
    source, target = ("I", "am"), ("Ich", "bin.")
    alignment = aligned((source, ("▁I", "▁a", "m"), (0, 1, 1)), (target, ("▁I", "ch", "▁bin."), (0, 0, 1)), weights)
    assert_close(alignment.weights, torch.tensor([[0.375, 0.4375], [0.0, 0.75]]))
    assert alignment.source_word_of_target_piece == {0: 0, 1: 1, 2: 1}
    assert alignment.pairs == ((0, 0), (1, 0), (1, 1))
    assert alignment.pharaoh == "0-0 1-0 1-1"
    assert repr(alignment) == "Alignment('0-0 1-0 1-1', 2 source words, 2 target words)"


def test_of_equal_weights_the_first_is_taken_and_pairs_are_in_order():
    weights = [[0.1, 0.6, 0.3], [0.25, 0.25, 0.5], [0.0, 0.0, 1.0]]
    alignment = aligned((("a", "b"), ("▁a", "▁b"), (0, 1)), (("c", "d"), ("▁c", "▁d"), (0, 1)), weights)
    assert alignment.pharaoh == "0-1 1-0"


def test_a_word_without_a_piece_looks_at_nothing_and_nothing_looks_at_it():
    source, target = (("\x01", "a"), ("▁a",), (1,)), (("c", "\x01", "d"), ("▁c", "▁d"), (0, 2))
    alignment = aligned(source, target, [[0.6, 0.4], [0.25, 0.75], [0.0, 1.0]])
    assert alignment.pairs == ((1, 0), (1, 2))
    assert_close(alignment.weights, torch.tensor([[0.0, 0.6], [0.0, 0.0], [0.0, 0.25]]))
    assert aligned((("\x01",), (), ()), target, [[1.0]] * 3).pairs == ()


def test_a_text_without_words_has_no_pairs():
    alignment = aligned(((), (), ()), ((), (), ()), [[1.0]])
    assert (alignment.pairs, alignment.pharaoh) == ((), "")


def test_punctuation_at_a_word_does_not_decide_where_the_word_looks():
    # 톰이 왔다. → Tom came. The full stop looks at the source's end, the words look at each other crosswise.
    weights = [
        [0.1, 0.7, 0.1, 0.1],  # ▁Tom looks at 왔다
        [0.6, 0.2, 0.1, 0.1],  # ▁came looks at 톰이
        [0.0, 0.1, 0.8, 0.1],  # . looks at .
        [0.0, 0.0, 0.0, 1.0],
    ]
    source, target = ("톰이", "왔다."), ("Tom", "came.")
    alignment = aligned(
        (source, ("▁톰이", "▁왔다", "."), (0, 1, 1)), (target, ("▁Tom", "▁came", "."), (0, 1, 1)), weights
    )
    assert_close(alignment.weights, torch.tensor([[0.1, 0.7], [0.6, 0.2]]))
    assert alignment.pairs == ((1, 0), (0, 1))


def test_a_word_of_punctuation_alone_is_its_punctuation_without_the_space_before_it():
    weights = [[0.5, 0.25, 0.0, 0.25], [0.0, 0.25, 0.5, 0.25], [0.0, 0.0, 0.0, 1.0]]
    alignment = aligned((("a", "…"), ("▁a", "▁", "…"), (0, 1, 1)), (("—",), ("▁", "—"), (0, 0)), weights)
    assert_close(alignment.weights, torch.tensor([[0.0, 0.5]]))
    assert alignment.pairs == ((1, 0),)
