"""Comparisons of two traces: the head and token where they first differ, refusals, a picture."""

import copy
from dataclasses import replace

import pytest
import torch
from pictures import texts
from random_models import t5
from refusals import refusal
from torch.testing import assert_close

import regard
from regard import Cut, InputError, Silence
from regard.views.picture.comparison import comparison_figure

TEXT = "The snake is very dangerous because it has a venom."


def test_two_runs_of_one_model_do_not_differ(snake, minilm):
    comparison = regard.compare(snake, regard.trace("MiniLM", snake.text))
    assert comparison.first is None
    assert not comparison.heads.any()
    assert comparison.output == 0.0
    assert repr(comparison) == "Comparison(MiniLM | MiniLM, first=None, largest=0, output=0)"


def test_a_cut_edge_is_where_two_traces_part_first():
    plain, cut = regard.trace("MiniLM", TEXT), regard.trace("MiniLM", TEXT, changes=[Cut("it", "snake", ["L3H1"])])
    comparison = regard.compare(plain, cut)
    assert comparison.first == ("L3H1", "it")
    assert not comparison.heads[:3].any()
    row = comparison.heads[3].clone()
    assert float(row[1]) == pytest.approx(plain["L3H1"]["it", "snake"], abs=1e-5)  # this weight goes to other keys
    row[1] = 0
    assert not row.any()
    assert float(comparison.weights[3, 1]) == pytest.approx(plain["L3H1"]["it", "snake"], abs=1e-5)
    assert comparison.largest(1) == [("L3H1", "it", float(comparison.heads[3, 1]))]
    assert comparison.output == pytest.approx(float((plain.output - cut.output).abs().max()))


def test_a_quantised_model_is_compared(minilm):
    model = copy.deepcopy(minilm.model)
    with torch.no_grad():
        for layer in model.encoder.layer[2:]:
            weight = layer.attention.self.query.weight
            scale = weight.abs().amax(dim=1, keepdim=True) / 7
            weight.copy_((weight / scale).round() * scale)
    comparison = regard.compare(regard.trace("MiniLM", TEXT), regard.trace(model, TEXT, tokenizer=minilm.tokenizer))
    head, token = comparison.first
    assert head.startswith("L2H")
    row, number = 2, int(head.removeprefix("L2H"))
    queries = regard.trace("MiniLM", TEXT)[head]
    others = regard.trace(model, TEXT, tokenizer=minilm.tokenizer)[head]
    variation = (queries.weights.double() - others.weights.double()).abs().sum(-1) / 2
    assert_close(comparison.heads[row, number].double(), variation.max(), rtol=1e-5, atol=1e-6)
    assert queries.queries[int(variation.argmax())].text == token
    assert float(comparison.heads[row].max()) == float(comparison.heads[row, number])


def test_an_encoder_decoder_parts_in_the_order_of_its_layers(minilm):
    model = t5()

    def traced(*changes):
        return regard.trace(model, "a dog runs", target="ein Hund", tokenizer=minilm.tokenizer, changes=changes)

    plain = traced()
    comparison = regard.compare(plain, traced(Silence("cross L0H2"), Silence("decoder L1H1")))
    places = [("encoder", 0), ("encoder", 1), ("decoder", 0), ("cross", 0), ("decoder", 1), ("cross", 1)]
    assert list(comparison.layers) == places
    assert comparison.first[0] == "cross L0H2"
    assert regard.compare(plain, traced(Silence("encoder L1H5"))).first[0] == "encoder L1H5"


def test_what_is_no_trace_is_refused(snake, without_type_checks):
    assert refusal(TypeError, regard.compare, snake, None) == "compare takes two traces; got None."


def test_traces_of_other_texts_and_models_are_refused(snake):
    other = regard.trace("MiniLM", TEXT.replace("venom.", "bite"))
    assert refusal(InputError, regard.compare, regard.trace("MiniLM", TEXT), other) == (
        "the traces have different tokens: the source has 'venom' and 'bite' at position 10; compare traces of the "
        "same text by models with the same tokenizer."
    )
    decoder = {"attended": {"decoder": snake.attended["encoder"]}, "target": snake.source, "source": ()}
    renamed = replace(snake, model="GPT-2", **decoder)
    assert refusal(InputError, regard.compare, snake, renamed) == (
        "MiniLM has encoder attention, and GPT-2 has decoder attention; compare models of the same architecture."
    )
    fewer = replace(snake, attended={"encoder": {n: step for n, step in snake.attended["encoder"].items() if n < 4}})
    assert refusal(InputError, regard.compare, snake, fewer) == (
        "the traces have 12 heads and no heads in encoder layer 4; compare traces of the same architecture and of the "
        "same layers."
    )


def test_a_picture_and_the_terminal_show_a_comparison(tmp_path, capsys):
    cut = regard.trace("MiniLM", TEXT, changes=[Cut("it", "snake", ["L3H1"])])
    comparison = regard.compare(regard.trace("MiniLM", TEXT), cut)
    comparison.show()
    text = capsys.readouterr().out
    assert "they first differ in L3H1 for the query it\n" in text
    assert "\n  L3H1" in text
    drawing = comparison.figure(tmp_path / "apart.svg").read_text()
    assert 'id="first-head"' in drawing
    figure = comparison_figure(comparison)
    grid = next(image for axes in figure.axes for image in axes.images if image.get_gid() == "heads")
    largest = float(comparison.heads.max())
    assert grid.norm.vmax == largest
    (head, token, _), *_ = comparison.largest(1)
    assert {f"{largest:.3g}", f"{largest:.3f}", head, token} <= set(texts(figure))
