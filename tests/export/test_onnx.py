"""Tests of exports to ONNX: the graphs compute what the model computes, for every length."""

import json

import jaxtyping
import numpy as np
import pytest
import torch
from refusals import refusal
from torch.testing import assert_close

from regard import InputError
from regard.export import onnx as export
from regard.export.parity import compare
from regard.export.recurrent_graphs import recurrent_graphs
from regard.export.transformer_graphs import transformer_graphs

pytestmark = pytest.mark.usefixtures("operators_read_once")

LINES = ["the cat sat", "zwei 猫", "a"]
SOURCE, LENGTHS = torch.tensor([[5, 7, 11, 3], [13, 3, 0, 0], [17, 19, 3, 0]]), torch.tensor([4, 2, 3])


def test_the_graphs_are_the_model(translator_of):
    model = translator_of(norm="pre", n_decoder_layers=3, n_key_heads=2).model
    graphs = transformer_graphs(model)
    state, memory = model.start(SOURCE, LENGTHS), graphs.encoder.module(SOURCE, LENGTHS)
    heads = model.config.n_key_heads or model.config.n_heads
    past = tuple(torch.zeros(3, heads, 0, model.config.d_head) for _ in memory)
    for token in ([2, 2, 2], [5, 7, 11], [13, 17, 19]):
        tokens = torch.tensor(token)[:, None]
        step = model.step(tokens, state)
        logits, *past = graphs.decoder.module(tokens, LENGTHS, (*memory, *past))
        assert_close(logits, step.logits[:, 0])
        state = step.state


RECURRENT = [
    {"form": "luong", "n_layers": 2, "score": "general", "attention": "hard"},
    {"form": "luong_feeding", "cell": "gru", "score": "location", "attention": "local_p"},
    {"form": "bahdanau", "cell": "gru", "score": "additive", "n_layers": 3},
    {"form": "bahdanau", "score": "location_aware"},
]


@pytest.mark.parametrize("shape", RECURRENT, ids=str)
def test_the_graphs_are_the_recurrent_model(recurrent_of, shape):
    model = recurrent_of(**shape).model
    graphs = recurrent_graphs(model)
    state, names = model.start(SOURCE, LENGTHS), list(graphs.encoder.outputs)
    given = dict(zip(names, graphs.encoder.module(SOURCE, LENGTHS), strict=True))
    assert_close(given["source_states"], state.memory.states)
    for token in ([2, 2, 2], [5, 7, 11], [13, 17, 19]):
        tokens = torch.tensor(token)[:, None]
        step = model.step(tokens, state)
        logits, *after = graphs.decoder.module(tokens, LENGTHS, tuple(given.values()))
        assert_close(logits, step.logits[:, 0])
        given |= zip((name for name in names if name.startswith("past_")), after, strict=True)
        state = step.state


def assert_first_logits(translator, opened, past):
    """Fail unless the first logits of a batch of 5 sources of several lengths are the model's."""
    source, lengths = torch.randint(4, 30, (5, 17)), torch.tensor([17, 1, 5, 9, 2])
    read = opened.encoder.run(None, {"source": source.numpy(), "lengths": lengths.numpy()})
    memory = dict(zip(opened.config["encoder"]["outputs"], read, strict=True))
    given = {"token": np.full((5, 1), 2), "lengths": lengths.numpy(), **memory, **past}
    logits = opened.decoder.run(["logits"], given)[0]
    expected = translator.model.step(torch.full((5, 1), 2), translator.model.start(source, lengths)).logits[:, 0]
    assert_close(torch.from_numpy(logits), expected.detach(), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.usefixtures("without_type_checks")
def test_a_recurrent_translator_translates_the_same(recurrent_of, tmp_path):
    """Other forms and scores are exported by site/test_recurrent_in_browser.py."""
    translator = recurrent_of(form="bahdanau", cell="gru", score="additive")
    export.write(translator, tmp_path)
    opened = export.LoadedExport(tmp_path)
    parity = compare(translator, opened, LINES)
    assert parity.n_same == len(LINES)
    assert parity.difference < 1e-5
    assert_first_logits(translator, opened, {})


def test_a_window_that_moves_with_the_tokens_is_refused(recurrent_of, tmp_path):
    assert refusal(InputError, export.write, recurrent_of(attention="local_m"), tmp_path) == (
        'this translator has attention="local_m", whose window depends on the number of the step, which ONNX graphs '
        'do not get; train it with attention="soft", "hard" or "local_p" to export it.'
    )


@pytest.fixture(scope="module")
def exported(translator_of, tmp_path_factory):
    """Return an exported translator; its rotary positions depend on the number of tokens, and it has byte pieces."""
    translator = translator_of(norm="pre", positions="rotary", n_key_heads=2, n_layers=1, with_bytes=True)
    folder = tmp_path_factory.mktemp("onnx")
    jaxtyping.config.update("jaxtyping_disable", True)  # an exported length is no int
    export.write(translator, folder)
    jaxtyping.config.update("jaxtyping_disable", False)
    return translator, export.LoadedExport(folder), folder


def test_an_export_translates_as_its_translator(exported):
    translator, opened, _ = exported
    lines = [*LINES, "a 뱀 🐍", "ẞ ▅ <s>"]
    parity = compare(translator, opened, lines)
    assert parity.n_same == len(lines)
    assert parity.difference < 1e-5


def test_a_batch_of_any_size_and_length(exported):
    translator, opened, _ = exported
    nothing = np.zeros((5, 2, 0, 4), dtype=np.float32)  # 2 heads of width 4, no token
    past = {name: nothing for name in opened.config["decoder"]["inputs"] if name.startswith("past_")}
    assert_first_logits(translator, opened, past)


def test_the_folder_says_what_the_graphs_take(exported):
    _, opened, folder = exported
    names = ["config.json", "decoder.onnx", "encoder.onnx", "source.spm", "target.spm"]
    assert sorted(path.name for path in folder.iterdir()) == names
    config = json.loads((folder / "config.json").read_text())
    assert [config[name] for name in ("pad", "bos", "eos", "max_tokens")] == [0, 2, 3, 23]
    for session, said in ((opened.encoder, config["encoder"]), (opened.decoder, config["decoder"])):
        taken = {one.name: one.shape for one in session.get_inputs()}
        assert taken == said["inputs"]
        given = {one.name: one.shape for one in session.get_outputs()}
        assert list(given) == list(said["outputs"])


def test_a_model_without_graphs_is_refused():
    assert refusal(InputError, export.graphs_of, object()) == (
        "only a Transformer and a Recurrent can be exported to ONNX, and this is a object translator, which only "
        "regard can run."
    )
