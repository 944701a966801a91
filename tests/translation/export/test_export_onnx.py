"""ONNX: the graphs are the model, before they are exported and after, for every length."""

import json

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from regard import InputError
from regard.translation.export import onnx as export
from regard.translation.export.graphs import transformer_graphs
from regard.translation.export.parity import compare

LINES = ["the cat sat", "zwei 猫", "a"]
SHAPES = [
    {"norm": "pre", "share": "none", "n_decoder_layers": 3},
    {"norm": "post", "positions": "learned", "activation": "swiglu"},
    {"norm": "pre", "positions": "rotary", "n_key_heads": 2, "activation": "mish"},
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_graphs_are_the_model(contents_of, shape):
    model = contents_of(**shape).model
    graphs = transformer_graphs(model)
    source, lengths = torch.tensor([[5, 7, 11, 3], [13, 3, 0, 0], [17, 19, 3, 0]]), torch.tensor([4, 2, 3])
    state, memory = model.start(source, lengths), graphs.encoder.module(source, lengths)
    heads = model.config.n_key_heads or model.config.n_heads
    known = tuple(torch.zeros(3, heads, 0, model.config.d_head) for _ in memory)
    for token in ([2, 2, 2], [5, 7, 11], [13, 17, 19]):
        tokens = torch.tensor(token)[:, None]
        step = model.step(tokens, state)
        logits, *known = graphs.decoder.module(tokens, lengths, (*memory, *known))
        assert_close(logits, step.logits[:, 0])
        state = step.state


@pytest.fixture(scope="module")
def exported(contents_of, tmp_path_factory):
    """The one shape that takes most of the graphs' ways: exporting takes seconds."""
    contents, folder = contents_of(norm="pre", n_key_heads=2, n_layers=1), tmp_path_factory.mktemp("onnx")
    export.write(contents, folder)
    return contents, export.Opened(folder), folder


def test_it_translates_the_same(exported):
    contents, opened, _ = exported
    parity = compare(contents, opened, LINES)
    assert parity.n_same == len(LINES)
    assert parity.difference < 1e-5


def test_a_batch_of_any_size_and_length(exported):
    contents, opened, _ = exported
    source, lengths = torch.randint(4, 30, (5, 17)), torch.tensor([17, 1, 5, 9, 2])
    memory = opened.encoder.run(None, {"source": source.numpy(), "lengths": lengths.numpy()})
    inputs = opened.config["decoder"]["inputs"]
    past = [np.zeros((5, 2, 0, 4), dtype=np.float32) for name in inputs if name.startswith("past_")]
    given = [np.full((5, 1), 2), lengths.numpy(), *memory, *past]
    logits = opened.decoder.run(["logits"], dict(zip(inputs, given, strict=True)))[0]
    expected = contents.model.step(torch.full((5, 1), 2), contents.model.start(source, lengths)).logits[:, 0]
    assert_close(torch.from_numpy(logits), expected.detach(), rtol=1e-4, atol=1e-4)


def test_the_folder_says_what_the_graphs_take(exported):
    _, opened, folder = exported
    assert sorted(path.name for path in folder.iterdir()) == [
        "config.json", "decoder.onnx", "encoder.onnx", "source.spm", "target.spm",
    ]  # fmt: skip
    config = json.loads((folder / "config.json").read_text())
    assert {name: config[name] for name in ("pad", "bos", "eos", "max_tokens")} == {
        "pad": 0, "bos": 2, "eos": 3, "max_tokens": 23,
    }  # fmt: skip
    for session, said in ((opened.encoder, config["encoder"]), (opened.decoder, config["decoder"])):
        taken = {one.name: one.shape for one in session.get_inputs()}
        assert taken == said["inputs"]
        given = {one.name: one.shape for one in session.get_outputs()}
        assert list(given) == list(said["outputs"])


class Fake:
    """A model of another kind."""


def test_what_has_no_graphs():
    with pytest.raises(InputError) as caught:
        export.graphs_of(Fake())
    assert str(caught.value) == (
        "only a Transformer is exported to ONNX, and this is a Fake translator; it runs in regard alone."
    )
