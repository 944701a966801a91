"""Tests of indexing a head by the words of its text, e.g. head["it", "snake"]."""

import pytest
import torch
from patches import patches
from refusals import refusal

from regard import Cut, InputError, VectorLengths, compare, trace, watching
from regard.tracing.generation import WrittenToken
from regard.tracing.tokens.readable_tokens import Token
from regard.tracing.tokens.token_reference import token_position


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


def test_a_token_is_found_by_text_then_by_piece_then_ignoring_case_and_by_its_number_among_equals():
    uncased = tuple(Token(text=text, piece=text.lower()) for text in ("The", "dog", "saw", "the", "cat"))
    pieces = (Token(text="ve", piece="ve"), Token(text="nom", piece="##nom", joined=True))
    repeated = words("it", "is", "it", "10:2", ":")
    for tokens, positions in (
        (words("The", "snake"), {"the": 0}),
        (words("The", "snake", "the"), {"the": 2}),
        (uncased, {"the": 3, "The": 0, "dog": 1}),
        (pieces, {"##nom": 1}),
        (repeated, {"it": 0, "it:2": 2, "10:2": 3, ":": 4, -1: 4}),
    ):
        assert {reference: token_position(reference, tokens) for reference in positions} == positions


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("snakes", "no token 'snakes' in the text; nearest: snake."),
        ("it:3", "no token 'it:3': 'it' occurs twice; take it:1 to it:2."),
        ("snake:2", "no token 'snake:2': 'snake' occurs once; take snake."),
        ("venom", "'venom' is 2 tokens here: ve, nom; name one of them, or join them with trace.words('venom')."),
        (
            "Snake it",
            "'Snake it' is 2 tokens here: snake, it; name one of them, or join them with trace.words('Snake it').",
        ),
        (9, "no token 9: there are 6, counted from 0 to 5."),
    ],
)
def test_references_to_no_token_are_refused_with_the_nearest(place, message):
    assert refusal(InputError, token_position, place, words("it", "snake", "it", "ve", "nom", ".")) == message


def test_the_range_of_patches_is_named():
    squares = [Token(f"{place.row},{place.column}", "patch", place=place) for place in patches(1, 2, 2, 8.0)]
    tokens = [Token("[CLS]", "[CLS]", special=True), *squares]
    assert refusal(InputError, token_position, "5,5", tokens) == (
        "no token '5,5': the parts of the picture or recording run from 0,0 to 1,1."
    )


def test_missing_heads_and_layers_are_answered_with_near_ones(snake):
    for name, near in (("L3", "L3H0, L3H1, L3H2"), ("L5H12", "L5H11, L5H10, L5H9")):
        assert refusal(InputError, snake.__getitem__, name).endswith(f"nearest: {near}.")
    for layer, near in ((-1, 5), (-6, 0), (-9, 0), (7, 5)):
        assert refusal(InputError, lambda layer=layer: snake.encoder[layer]).endswith(f"nearest: {near}.")


def test_reprs_are_short(snake):
    best = snake["L3H1"].top("it", 1)[0]
    assert repr(best) == f"KeyWeight({best.token.text!r}, {best.weight:.4g}, position={best.position})"
    kept = trace("MiniLM", "a dog runs", keep=("hidden",))
    contributions = "Contributions(vectors=<float32 [12, 5, 384]>, lengths=<float32 [12, 5]>)"
    assert repr(kept.contributions("dog", 2)) == contributions
    assert repr(kept.movement("dog")).startswith("Movement(layers=(0, 1, 2, 3, 4, 5), before=<float32 [6, 384]>, ")
    assert len(repr(kept.states)) < 6000
    written = WrittenToken(2, best.token, 0.123456, (("a", 0.1),) * 5)
    assert repr(written) == f"WrittenToken({best.token.text!r}, 0.1235, position=2)"


@pytest.mark.usefixtures("without_type_checks")
def test_what_names_no_token_is_refused(snake):
    head = snake["L3H1"]
    for reference in (7.0, None, slice(0, 3), ["it"]):
        assert refusal(TypeError, lambda reference=reference: head[reference]) == (
            f"{reference!r} is not a token; give its position, such as 7, or its text, such as 'it'."
        )
    for reference in (("it",), ("it", "snake", "a")):
        assert refusal(TypeError, lambda reference=reference: head[reference]) == (
            f"a head takes a query, or a query and a key: head['it', 'snake']; got {reference!r}."
        )
    assert refusal(InputError, head.top, "it", 0) == "n=0 is how many keys to return; it must be at least 1."


@pytest.mark.usefixtures("without_type_checks")
def test_one_thing_in_place_of_several_and_a_text_in_place_of_an_object_are_refused(snake, minilm):
    layers = "is not a list of layer numbers; give for instance layers=[3]."
    assert refusal(TypeError, trace, "MiniLM", "a", layers=3) == f"layers=3 {layers}"
    assert refusal(TypeError, watching(minilm.model, layers="3").__enter__) == f"layers='3' {layers}"
    assert refusal(TypeError, watching(minilm.model, layers=["L3"]).__enter__) == f"layers=['L3'] {layers}"
    assert refusal(TypeError, Cut, 1, 2, heads="L3H1") == "heads='L3H1' is not a list of heads; give heads=['L3H1']."
    assert refusal(TypeError, snake.words, ["The snake"]) == (
        "['The snake'] is not the text of words; give each text by itself: words('Eiffel Tower')."
    )
    assert refusal(TypeError, snake.rollout, "it", flow=VectorLengths) == (
        "flow is the class VectorLengths; it takes an object such as HeadMean() or VectorLengths()."
    )


@pytest.mark.parametrize("at_most", [-1.0, 1.5])
def test_a_limit_that_no_difference_can_have_is_refused(snake, at_most):
    assert refusal(InputError, compare, snake, snake, at_most=at_most) == (
        f"at_most={at_most:g}: a difference of attention is from 0 to 1."
    )


def test_a_token_that_the_vocabulary_lacks_is_named_by_its_letters():
    tokens = [Token("[CLS]", "[CLS]", special=True), Token("[UNK:🙂]", "[UNK]"), Token("[UNK:🍕]", "[UNK]")]
    assert token_position("🍕", tokens) == token_position("[UNK:🍕]", tokens) == 2
