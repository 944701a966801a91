"""Tests of the benchmark of transformers' model types: three types are run, and every verdict is derived."""

import json
import os
import subprocess
import sys
from pathlib import Path

import model_types
import pytest
import seen_attention
import torch
import transformers
import typer
from generated import generation
from seen_attention import Reference, compare_steps, part_difference
from small_config import shrink, split
from small_models import configs, modules_of, runner, wholes_of
from special_inputs import INPUTS
from special_types import REASONS, VALUES
from trial import Trial, of_part
from verdict import install_verdict, watching_verdict

import regard

ROOT = Path(__file__).parent.parent
NO_PADDING = torch.ones(2, 5)
"""The attention mask of two texts of five tokens."""


@pytest.mark.slow
def test_three_types_get_their_verdicts(tmp_path):
    details = tmp_path / "details.json"
    options = ["--types", "bert,falcon,mamba", "--details", str(details)]
    command = [sys.executable, "-m", "benchmarks.model_types", *options]
    page = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "| bert | exact | exact |  |" in page
    assert "| falcon | exact | refused |  |" in page
    assert "| mamba | no attention | no attention |  |" in page
    assert "| all | 3 | 3 | |" in page
    bert = json.loads(details.read_text().splitlines()[0])["details"]
    assert bert["left"]["eager"]["compare"]["n_equal"] == bert["left"]["n_references"] == 2


def test_types_that_have_been_tried_are_not_tried_again(tmp_path, monkeypatch, capsys):
    details = tmp_path / "details.jsonl"
    details.write_text(json.dumps({"type": "bert", "watching": "exact", "install": "partly", "remark": "seen"}) + "\n")
    asked = []

    def try_types(names, processes):
        asked.append((list(names), processes))
        return [Trial(name, watching="no attention") for name in names]

    monkeypatch.setattr(model_types, "try_types", try_types)
    for _ in range(2):
        model_types.main(types="bert,mamba", details=details, processes=2)
    assert asked == [(["mamba"], 2), ([], 2)]
    page = capsys.readouterr().out
    assert page.count("| bert | exact | partly | seen |") == 2
    assert page.count("| mamba | no attention | not tried |  |") == 2


def test_the_rows_of_some_types_and_the_counts_are_written_anew(tmp_path, monkeypatch):
    page = Path(ROOT / "docs/model-types.md").read_text()
    path, known = tmp_path / "page.md", {"bert": Trial("bert", "exact", "exact")}
    path.write_text(page)
    monkeypatch.setattr(model_types, "try_types", lambda names, processes: [known[name] for name in names])
    model_types.main(types="bert", write=path)
    assert path.read_text() == page
    known["bert"] = Trial("bert", "partly", "refused", "some <layers>")
    model_types.main(types="bert", write=path)
    changed = [
        (old, new) for old, new in zip(page.splitlines(), path.read_text().splitlines(), strict=True) if old != new
    ]
    # in both columns one fewer is exact; one more is watched partly, and install refuses one more
    counts = [[[int(cell) for cell in line.split("|")[2:4]] for line in pair] for pair in changed[:-1]]
    assert [[b - a for a, b in zip(*pair, strict=True)] for pair in counts] == [[-1, -1], [1, 0], [0, 1]]
    assert changed[-1] == ("| bert | exact | exact |  |", "| bert | partly | refused | some &lt;layers&gt; |")
    path.write_text(page.replace(transformers.__version__, "0.1"))
    with pytest.raises(typer.BadParameter) as raised:
        model_types.main(types="bert", write=path)
    assert str(raised.value) == f"{path} is of another version of transformers; try all types, without --types."


def test_a_trial_that_takes_too_long_or_whose_process_ends_has_a_remark(monkeypatch):
    def forever(name):
        while True:
            pass

    monkeypatch.setattr(model_types, "SECONDS", 1)
    monkeypatch.setattr(model_types, "try_type", forever)
    assert model_types.in_child("bert") == Trial("bert", remark="it takes more than 1 seconds of the processor")
    monkeypatch.setattr(model_types, "try_type", lambda name: os._exit(1))
    remark = "its process ends, for instance for want of memory (8 GiB)"
    assert model_types.in_child("bert") == Trial("bert", remark=remark)


def test_a_part_is_found_in_the_model_that_it_belongs_to():
    from transformers.models.t5gemma.configuration_t5gemma import T5GemmaConfig, T5GemmaModuleConfig

    assert list(wholes_of(T5GemmaModuleConfig)) == [T5GemmaConfig]
    encoder = torch.nn.Linear(2, 2)
    encoder.config = T5GemmaModuleConfig()
    model = torch.nn.ModuleDict({"encoder": encoder, "head": torch.nn.Linear(2, 2)})
    assert modules_of(T5GemmaModuleConfig, model) == ["encoder"]
    paths = [None, "encoder", "encoder.layers.0", "encoders", "head"]
    assert of_part([Reference(path, NO_PADDING) for path in paths], ["encoder"]) == [
        Reference(path, NO_PADDING) for path in paths[1:3]
    ]


@pytest.mark.parametrize("table", [VALUES, INPUTS, REASONS])
def test_special_types_are_types_of_transformers(table):
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    assert [name for name in table if name not in CONFIG_MAPPING_NAMES] == []


def test_a_model_cannot_change_its_inputs():
    class Model(torch.nn.Module):
        def forward(self, session):
            session.append(1)
            return session

    run = runner({"session": []})
    assert [run(Model()), run(Model())] == [[1], [1]]


def test_a_configuration_is_shrunk_in_its_parts_and_keeps_a_layer_of_each_kind():
    from transformers import Gemma3Config

    small = shrink(Gemma3Config())["text_config"]
    assert small["layer_types"] == ["sliding_attention", "full_attention"]
    assert (small["num_hidden_layers"], small["hidden_size"], small["sliding_window"]) == (2, 128, 12)
    assert split(16, 3) == [5, 5, 6]


@torch.no_grad()
def watched(change=0.0):
    """Return the watched steps of a PyTorch attention layer, and its weights plus `change`."""
    torch.manual_seed(0)
    model = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x = torch.randn(2, 5, 8)
    with regard.watching(model) as record:
        _, weights = model(x, x, x, average_attn_weights=False)
    return record.steps, [Reference("", weights + change)]


def test_equal_weights_are_counted_and_differing_and_missing_ones_reported():
    assert compare_steps(*watched(), NO_PADDING).n_equal == 1
    other = compare_steps(*watched(change=1e-3), NO_PADDING)
    assert other.n_equal == 0
    assert other.differing["outputs"] == pytest.approx(1e-3, rel=1e-3)
    assert compare_steps([], watched()[1], NO_PADDING).missing == ["outputs"]


def test_the_last_tokens_of_weights_are_compared_where_the_model_returns_no_others():
    weights = torch.randn(2, 3, 7, 7).softmax(-1)
    assert part_difference(weights, weights[..., -5:, -5:], NO_PADDING) == 0.0
    assert part_difference(weights, weights[..., :5, :5], NO_PADDING) > 0.0


def test_generated_texts_and_their_weights_are_compared():
    from transformers import AlbertConfig, LlamaConfig

    assert generation(AlbertConfig()) == {}
    found = generation(next(configs(LlamaConfig, "llama")))
    assert sorted(found) == ["left, default", "left, eager", "none, default", "none, eager"]
    for one in found.values():
        assert (one["n_equal"], one["differing"], one["missing"], one["unseen"]) == (8, {}, [], {})
        assert (one["written"], one["compared"], one["check"] < 1e-5) == (True, True, True)


def test_weights_of_padding_are_not_compared():
    steps, (reference,) = watched()
    reference.weights[1, :, 3:] += 1
    assert compare_steps(steps, [reference], NO_PADDING).differing
    padding = NO_PADDING.clone()
    padding[1, 3:] = 0
    assert compare_steps(steps, [reference], padding).n_equal == 1


def test_only_tensors_of_rows_that_sum_to_1_are_taken_for_weights():
    assert seen_attention.is_weights(torch.ones(2, 3, 4).softmax(-1))
    assert not seen_attention.is_weights(torch.ones(2, 3, 4))
    assert not seen_attention.is_weights(torch.ones(3, 4).softmax(-1))


def run(**changes):
    """Return what a trial finds in a run in which all is right, with some entries changed."""
    compare = {"n_equal": 2, "worst": 0.0, "differing": {}, "missing": [], **changes.pop("compare", {})}
    usual = {"bits": True, "steps": 2, "unseen": {}, "check": 0.0, "compare": compare, "softmax_in_unseen": []}
    return usual | changes


def details(n_references=2, install=None, **changes):
    runs = {"default": run(**changes), "eager": run()}
    install = {"n_patterns": 2, "compare": run()["compare"], "output": 0.0} if install is None else install
    return {"none": {"n_references": n_references, "own_difference": 0.0, "install": install, **runs}}


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "exact"),
        ({"bits": False, "repeatable": True}, "wrong"),
        ({"check": 1e-3}, "wrong"),
        ({"check": float("nan")}, "wrong"),
        ({"compare": {"differing": {"layers.0": 0.5}}}, "wrong"),
        ({"compare": {"missing": ["layers.0"]}}, "wrong"),
        ({"compare": {"missing": ["layers.0"]}, "unseen": {"layers.0": "its reason"}}, "partly"),
        ({"unseen": {"layers.0": "its reason"}, "softmax_in_unseen": ["layers.0"]}, "partly"),
        ({"unseen": {"layers.0": "its reason"}}, "exact"),
    ],
)
def test_a_watched_model_gets_a_verdict(changes, verdict):
    assert watching_verdict(details(**changes))[0] == verdict


WRITTEN = {"written": True, "differing": {}, "missing": [], "unseen": {}, "check": 0.0}


@pytest.mark.parametrize(
    ("changes", "verdict", "remark"),
    [
        ({}, "exact", ""),
        ({"missing": ["outputs"], "unseen": {"layers.0": "its reason"}}, "exact", ""),
        ({"differing": {"outputs": 0.5}, "unseen": {"layers.0": "its reason"}}, "exact", ""),
        ({"written": False}, "wrong", "`generate` writes something else while it is watched"),
        ({"differing": {"outputs": 0.5}}, "wrong", "`generate`: weights differ by 0.5"),
        ({"missing": ["outputs", "outputs"]}, "wrong", "`generate`: 2 weights are missing without a word"),
        ({"check": 0.25}, "wrong", "`generate`: contexts differ by 0.25"),
    ],
)
def test_a_model_that_writes_gets_a_verdict(changes, verdict, remark):
    found = details() | {"generate": {"none, default": WRITTEN | changes, "failed": "its reason"}}
    assert watching_verdict(found) == (verdict, remark)


@pytest.mark.parametrize(
    ("install", "verdict"),
    [
        ({"n_patterns": 2, "compare": run()["compare"], "output": 0.0}, "exact"),
        ({"n_patterns": 0, "compare": run()["compare"], "output": 0.0}, "no weights"),
        ({"n_patterns": 2, "compare": run()["compare"], "output": 0.1}, "wrong"),
        ({"n_patterns": 2, "compare": run(compare={"differing": {"attentions[0]": 0.1}})["compare"]}, "wrong"),
        ({"n_patterns": 2, "compare": run(compare={"missing": ["attentions[0]"]})["compare"]}, "partly"),
        ({"refused": "why"}, "refused"),
        ({"error": "ValueError"}, "wrong"),
    ],
)
def test_an_installed_model_gets_a_verdict(install, verdict):
    assert install_verdict(details(install=install), "exact")[0] == verdict
