"""Tests of indexing a head by the words of its text, e.g. head["it", "snake"]."""

import pytest
import torch

from regard import InputError
from regard.tracing.readable_tokens import Token
from regard.tracing.token_reference import token_position


def words(*texts):
    return tuple(Token(text=text, piece=text) for text in texts)


def test_a_row_a_weight_and_the_strongest_keys(snake):
    head = snake["L3H1"]
    row = snake.encoder[3][0, 1, 7]
    assert torch.equal(head["it"], row)
    assert torch.equal(head[7], row)
    assert head["it", "snake"] == float(row[2])
    assert torch.equal(head.weights, snake.encoder[3].dense()[0, 1])
    strongest = head.top("it", 3)
    assert [look.token.text for look in strongest] == ["snake", "The", "[CLS]"]
    assert [look.weight for look in strongest] == sorted(row.tolist(), reverse=True)[:3]


def test_case_matters_only_where_both_occur():
    assert token_position("the", words("The", "snake")) == 0
    assert token_position("the", words("The", "snake", "the")) == 2


def test_the_text_comes_before_the_models_pieces():
    """An uncased model's piece of "The" is "the"."""
    tokens = tuple(Token(text=text, piece=text.lower()) for text in ("The", "dog", "saw", "the", "cat"))
    assert token_position("the", tokens) == 3
    assert token_position("The", tokens) == 0
    assert token_position("dog", tokens) == 1


def test_the_second_of_several():
    tokens = words("it", "is", "it", "10:2", ":")
    assert token_position("it", tokens) == 0
    assert token_position("it:2", tokens) == 2
    assert token_position("10:2", tokens) == 3
    assert token_position(":", tokens) == 4
    assert token_position(-1, tokens) == 4


def test_a_piece_is_known_by_the_tokenizers_name_for_it():
    assert token_position("##nom", (Token(text="ve", piece="ve"), Token(text="nom", piece="##nom", joined=True))) == 1


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("snakes", "no token 'snakes' in the text; nearest: snake."),
        ("it:3", "no token 'it:3': 'it' occurs twice; take it:1 to it:2."),
        ("venom", "'venom' is 2 tokens here: ve, nom; name one of them."),
        (9, "no token 9: there are 6, counted from 0 to 5."),
    ],
)
def test_refusals(place, message):
    with pytest.raises(InputError) as refusal:
        token_position(place, words("it", "snake", "it", "ve", "nom", "."))
    assert str(refusal.value) == message
