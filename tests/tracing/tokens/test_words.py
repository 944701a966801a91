"""Traces of words and averages over heads, against sums and means over the weights of the tokens."""

import json

import pytest
import torch
from cli_runner import output, refused
from random_models import gpt2, t5
from refusals import refusal
from torch.testing import assert_close

import regard
from regard import Ask, InputError
from regard.tracing.merged_pattern import merged_pattern

TEXT = "The Eiffel Tower is taller than Montmartre, and visitors climb the Eiffel Tower."


@pytest.fixture(scope="module")
def tower(minilm):
    return regard.trace(minilm.model, TEXT, tokenizer=minilm.tokenizer)


def by_loops(weights, queries, keys):
    """Return weights between words, by loops: sums over the pieces of key words, means over those of query words."""
    merged = torch.zeros(*weights.shape[:2], len(queries), len(keys), dtype=torch.float64)
    for row, some in enumerate(queries):
        for column, others in enumerate(keys):
            for query in some:
                for key in others:
                    merged[:, :, row, column] += weights[:, :, query, key].double() / len(some)
    return merged


def test_words_are_those_of_the_text(tower):
    words = [token.text for token in tower.words().tokens]
    assert " ".join(words) == (
        "[CLS] The Eiffel Tower is taller than Montmartre , and visitors climb the Eiffel Tower . [SEP]"
    )
    assert len(tower.tokens) > len(words)
    joined = [token.text for token in tower.words("Eiffel tower", "climb the").tokens]
    assert joined[2:4] == ["Eiffel Tower", "is"]
    assert joined[-5:-2] == ["visitors", "climb the", "Eiffel Tower"]


def test_an_apostrophe_between_letters_is_part_of_the_word(minilm):
    text = "It doesn't re-open 'til the dogs' day in Zürich’s 'old' town"
    words = [token.text for token in regard.trace("MiniLM", text).words().tokens]
    expected = "[CLS] It doesn't re - open ' til the dogs ' day in Zürich’s ' old ' town [SEP]"
    assert " ".join(words) == expected


@pytest.mark.parametrize("spans", [(), ("Eiffel Tower",)])
def test_weights_of_words_are_sums_and_means(tower, spans):
    words = tower.words(*spans)
    groups = words.joined.source
    assert [i for group in groups for i in group] == list(range(len(tower.tokens)))
    for layer in (0, 3):
        expected = by_loops(tower.encoder[layer].dense(), groups, groups)
        pattern = words.encoder[layer]
        assert_close(pattern.dense().double(), expected, atol=1e-6, rtol=1e-5)
        assert_close(pattern.dense().sum(dim=-1), torch.ones(1, 12, len(groups)))
        assert_close(pattern[0, 7, 4].double(), expected[0, 7, 4], atol=1e-6, rtol=1e-5)
        assert_close(pattern[0, 2, [5, 1], 3:6].double(), expected[0, 2, [5, 1], 3:6], atol=1e-6, rtol=1e-5)
        assert_close(pattern.received().double(), expected.sum(dim=2), atol=1e-5, rtol=1e-5)
        assert_close(pattern.entropy().double(), -torch.xlogy(expected, expected).sum(-1), atol=1e-5, rtol=1e-5)
        assert_close(pattern.top(2).weights.double(), expected.topk(2).values, atol=1e-6, rtol=1e-5)
    row = words["L3H1"]["Montmartre"]
    assert words["L3H1"]["Montmartre", "Montmartre"] == pytest.approx(float(row[7 - len(spans)]))


def test_the_average_over_heads_is_a_head_of_its_own(tower):
    head = tower["L3average"]
    assert_close(head.weights, tower.encoder[3].dense()[0].mean(dim=0), atol=1e-6, rtol=1e-5)
    n = len(tower.tokens)
    assert (head.name, head.layer, repr(head)) == ("L3average", 3, f"Head(L3average, encoder, queries={n}, keys={n})")
    assert tower["encoder l3AVERAGE"]["taller", "than"] == pytest.approx(head["taller", "than"])
    assert_close(tower.words()["L3average"].weights, tower.words().encoder[3].dense()[0].mean(dim=0))
    assert refusal(InputError, lambda: tower["L9average"]) == (
        "no layer 9 to average: layers run from 0 to 5; nearest: 5."
    )
    assert refusal(InputError, head.contributions, "is") == (
        "contributions are those of one head; L3average is an average over the heads of a layer."
    )


def test_a_word_is_masked_where_all_its_pieces_are(minilm):
    trace = regard.trace(gpt2(), TEXT, tokenizer=minilm.tokenizer)
    words = trace.words("is taller than Montmartre")
    groups = words.joined.target
    pattern = words.decoder[1]
    expected = torch.tensor([[any(k <= q for q in some for k in others) for others in groups] for some in groups])
    assert torch.equal(pattern.keep(pattern.grid.whole())[0, 0], expected)
    assert torch.equal(pattern.dense() > 0, expected.expand(1, 4, -1, -1))
    assert int(pattern.top(9).keys[0, 0, 0, 1]) == -1
    average, n = trace["L1average"].pattern, len(trace.tokens)
    assert torch.equal(average.keep(average.grid.whole())[0, 0], torch.ones(n, n).tril() > 0)


def test_both_texts_of_an_encoder_decoder_are_joined(minilm):
    trace = regard.trace(t5(), "the Montmartre", target="climb Montmartre", tokenizer=minilm.tokenizer)
    words = trace.words("the Montmartre")
    source, target = words.joined.source, words.joined.target
    for kind, queries, keys in (("encoder", source, source), ("decoder", target, target), ("cross", target, source)):
        weights = getattr(trace, kind)[1].dense()
        assert_close(getattr(words, kind)[1].dense().double(), by_loops(weights, queries, keys), atol=1e-6, rtol=1e-5)
    assert [token.text for token in words.source][1] == "the Montmartre"


def test_rollout_and_check_are_those_of_the_tokens(tower):
    words = tower.words()
    group = words.joined.source[7]
    assert len(group) > 1
    pieces = torch.stack([tower.rollout(piece) for piece in group]).mean(dim=0)
    expected = torch.stack([pieces[list(one)].sum() for one in words.joined.source])
    assert_close(words.rollout("Montmartre"), expected)
    assert float(expected.sum()) == pytest.approx(1)
    assert words.check() == tower.check()
    assert [token.text for token in words.words("Eiffel Tower").tokens][2] == "Eiffel Tower"


def test_words_that_the_model_wrote_have_the_product_of_their_probabilities(minilm):
    trace = regard.trace(gpt2(std=0.3), "The", tokenizer=minilm.tokenizer, new_tokens=12)
    words = trace.words()
    by_position = {token.position: token.probability for token in trace.written}
    assert words.written
    for word in words.written:
        product = 1.0
        for position in words.joined.target[word.position]:
            product *= by_position[position]
        assert word.probability == pytest.approx(product)
        assert word.token == words.tokens[word.position]


def test_what_words_cannot_do_is_refused(tower, minilm, tmp_path):
    words = tower.words()
    assert refusal(InputError, words.save, tmp_path / "words.safetensors") == (
        "a trace of joined tokens cannot be saved; save the trace from which words() or without_padding() made it, and "
        "call them when it is loaded."
    )
    assert refusal(InputError, words.movement, "Montmartre").endswith("and do not join its words.")
    assert refusal(InputError, tower.words, "Eifel Tower") == (
        "no words 'Eifel Tower' in the text, or only parts of words; the nearest words are Tower, Eiffel."
    )
    assert refusal(InputError, tower.words, " ") == (
        "no words ' ' in the text, or only parts of words; the nearest words are [CLS], The, Eiffel."
    )
    answered = regard.trace(minilm.model, TEXT, tokenizer=minilm.tokenizer, ask=Ask())
    message = refusal(InputError, lambda: answered.words()["L3H1"].row("Montmartre"))
    assert message.startswith("this pattern has statistics and no single weights")


def test_every_view_shows_words(tower, tmp_path, capsys):
    words = tower.words("Eiffel Tower")
    words.show("Montmartre", "L3average")
    assert "Montmartre looks, in L3average, at" in capsys.readouterr().out
    words.show("Eiffel Tower:2", "L3H1")
    assert "Eiffel Tower" in capsys.readouterr().out
    picture = words.figure(tmp_path / "words.svg", "Montmartre", "L3average").read_text()
    assert "Montmartre" in picture
    words.heads_figure(tmp_path / "heads.svg", layer=3)
    page = words.html(tmp_path / "words.html", "Montmartre", "L3average").read_text()
    assert '"Eiffel Tower"' in page


def test_the_command_line_joins_words(tmp_path):
    path = tmp_path / "words.json"
    chosen = ("--words", "--span", "Eiffel Tower", "--head", "L3average", "--token", "Montmartre")
    shown = output("look", TEXT, *chosen, "--json", path)
    assert "Montmartre looks, in L3average, at" in shown
    document = json.loads(path.read_text())
    assert document["queries"][1:4] == ["The", "Eiffel Tower", "is"]
    assert document["focus"]["head"] == "L3average"
    assert sum(document["focus"]["weights"]) == pytest.approx(1)
    assert list(document["weights"]) == ["L3average"]
    same = output("compare", "MiniLM", "MiniLM", TEXT, "--words", "--json", "-")
    assert json.loads(same)["first"] is None
    assert refused("explain", "--model", "MiniLM", "--text", "The snake.", "--head", "L3average") == (
        "L3average is an average of heads, which is not computed from a query; name a head."
    )


def test_merging_works_in_any_batch():
    query, key = torch.randn(2, 3, 2, 7, 5).unbind()
    pattern = regard.attend(query, key, key, mask=regard.Causal()).pattern
    queries, keys = [[0, 1], [2], [3, 4, 5], [6]], [[0], [1, 2, 3], [4, 5, 6]]
    merged = merged_pattern(pattern, queries, keys)
    assert_close(merged.dense().double(), by_loops(pattern.dense(), queries, keys), atol=1e-6, rtol=1e-5)
    assert_close(merged[1, :, 2].double(), by_loops(pattern.dense(), queries, keys)[1, :, 2], atol=1e-6, rtol=1e-5)
    assert repr(merged) == (
        "Pattern(batch=3, heads=2, queries=4, keys=3, score=MergedWeights(queries=7, keys=7), normalise=Identity())"
    )
