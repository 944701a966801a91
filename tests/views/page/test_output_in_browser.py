"""The output step of a model's head in a browser: what W_O makes of its context is what `contributions` computes."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from page_views import columns, number, numbers, view
from playwright.sync_api import Page, expect
from transformers import GPT2Config, GPT2Model, LlamaConfig, LlamaModel

import regard
from regard import Trace
from regard.effects.contributions import OutputProjection
from regard.effects.movement import LayerStates
from regard.tracing.model_loading import LoadedModel
from regard.views.page.outputs import N_SHOWN, output_record

MODELS = {
    "gpt2, whose W_O is stored transposed": lambda: GPT2Model(
        GPT2Config(vocab_size=30522, n_positions=64, n_embd=24, n_layer=2, n_head=4)
    ),
    "llama, whose heads share keys and have no bias": lambda: LlamaModel(
        LlamaConfig(
            vocab_size=30522, hidden_size=24, intermediate_size=37, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2,
        )
    ),
}  # fmt: skip
NONE_KEPT = "This page comes without the output projection W_O, so the step after the context is left out."


@pytest.fixture
def shown(opened: Callable[..., Page]) -> Callable[..., Page]:
    """shown(path) is the page in a file at the step of W_O, with the query "it" in head 1 of layer 1."""

    def show(path: Path, address: str = "") -> Page:
        page = opened(path, address=f"#step=8&head=L1H1{address}")
        expect(view(page, "steps").locator("table.steps tbody tr")).not_to_have_count(0)
        return page

    return show


def table(page: Page, name: str) -> dict[str, list[str]]:
    """The columns of a table of the steps by their names; the first column has the names of the rows."""
    return columns(view(page, "steps").locator(f"table.{name}"))


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_the_output_of_a_head_is_that_of_python(
    shown: Callable[..., Page], minilm: LoadedModel, kept: Trace, tmp_path: Path, make: Callable[[], Any]
) -> None:
    torch.manual_seed(0)
    model = make().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    trace = regard.trace(model, kept.text, tokenizer=minilm.tokenizer, keep=("hidden",))
    check_output(shown(trace.html(tmp_path / "page.html", token="it", head="L1H1")), trace)


def check_output(page: Page, trace: Trace) -> None:
    """Compare the tables of the step with what Python computes of head L1H1 and the query "it"."""
    (kind,) = trace.kinds
    query = trace["L1H1"].queries.index(next(token for token in trace["L1H1"].queries if token.text == "it"))
    wanted = trace["L1H1"].contributions("it")
    of_layer = trace.contributions("it", 1).vectors.double().sum(dim=1)
    state = trace.states[kind][1]
    seen = table(page, "dimensions:not(.lengths)")
    assert seen["dimension"] == [str(n) for n in range(N_SHOWN)]
    own = wanted.vectors.double().sum(dim=0)[:N_SHOWN]
    assert numbers(seen["H1"]) == pytest.approx(own.tolist(), abs=1e-4)
    others = of_layer.sum(dim=0)[:N_SHOWN] - own
    assert numbers(seen["other heads"]) == pytest.approx(others.tolist(), abs=1e-4)
    assert numbers(seen["layer’s output"]) == pytest.approx(state.attention[query, :N_SHOWN].tolist(), abs=6e-5)
    assert numbers(seen["sum"]) == pytest.approx(state.attention[query, :N_SHOWN].tolist(), abs=2e-4)
    if state.projection.bias is None:
        assert "output bias" not in seen
    else:
        bias = state.projection.bias[:N_SHOWN].tolist()
        assert numbers(seen["output bias"]) == pytest.approx(bias, abs=6e-5)

    heads = table(page, "lengths")
    lengths = of_layer.norm(dim=-1)
    assert heads["Head"] == [f"H{head}" for head in lengths.argsort(descending=True).tolist()]
    assert numbers(heads["length"]) == pytest.approx(sorted(lengths.tolist(), reverse=True), abs=1e-4)
    expect(view(page, "steps").locator(".say")).to_contain_text(f"a vector of {len(wanted.vectors[0])} numbers")
    said = view(page, "steps").locator(".say").inner_text().split("length ")[1].removesuffix(".")
    assert number(said) == pytest.approx(float(lengths[1]), abs=1e-4)

    keys = table(page, "steps")
    names = [token.text for token in trace["L1H1"].keys]
    for name, length in zip(keys["key"], keys["length added"], strict=True):
        if name in names:  # else it stands for several keys
            assert number(length) == pytest.approx(float(wanted.lengths[names.index(name)]), abs=1e-4)


def test_a_changed_temperature_changes_the_sum_and_no_length(
    shown: Callable[..., Page], kept_page: Path, kept: Trace
) -> None:
    page = shown(kept_page, "&query=7&temperature=0.5")
    call, head = kept.encoder[1].call, kept["L1H1"]
    query, key, value = (part[0, 1].double() for part in (call.query, call.key, call.value))
    weights = torch.softmax(query[7] @ key.T / 32**0.5 / 0.5, dim=-1)
    weight = head.projection.weight.double()
    own = (weights @ value @ weight[1])[:N_SHOWN]
    seen = table(page, "dimensions:not(.lengths)")
    assert "layer’s output" not in seen
    assert numbers(seen["H1"]) == pytest.approx(own.tolist(), abs=1e-4)
    of_heads = kept.contributions("it", 1).vectors.double().sum(dim=1)
    total = own + of_heads.sum(dim=0)[:N_SHOWN] - of_heads[1, :N_SHOWN] + head.projection.bias[:N_SHOWN]
    assert numbers(seen["sum"]) == pytest.approx(total.tolist(), abs=1e-4)
    said = "The sum includes your changes to this head; the lengths do not."
    expect(view(page, "steps").locator(".say")).to_contain_text(said)
    added = table(page, "steps")
    wanted = float(weights[2]) * float((value[2] @ weight[1]).norm())
    assert number(added["length added"][added["key"].index("snake")]) == pytest.approx(wanted, abs=1e-4)
    page.get_by_role("button", name="undo all changes").click()
    check_output(page, kept)


def test_a_number_tells_the_sum_that_it_came_from(shown: Callable[..., Page], kept_page: Path, kept: Trace) -> None:
    steps, head = view(shown(kept_page, "&query=7"), "steps"), kept["L1H1"]
    row = steps.locator("table.dimensions:not(.lengths) tbody tr").nth(2)
    seen = numbers(row.locator("td").all_inner_texts())
    row.locator("td").nth(3).hover()
    told = steps.locator(".cell-sum").inner_text().replace("−", "-").replace("(", "").replace(")", "")
    total, terms = told.split(" = ")
    assert [float(term) for term in terms.split(" + ")] == seen[:3]
    assert float(total) == seen[3]
    row.locator("td").nth(0).hover()
    context = head["it"].double() @ head.pattern.value[0, 1].double()
    first = f"{context[0]:.4f}", f"{head.projection.weight[1, 0, 2]:.4f}"
    expect(steps.locator(".cell-sum")).to_contain_text(" · ".join(signed(text) for text in first))
    expect(steps.locator(".cell-sum")).to_contain_text("… (29 more products)")


def signed(text: str) -> str:
    return f"({text.replace('-', '−')})" if text.startswith("-") else text


def test_cross_attention_has_its_own_output(opened: Callable[..., Page], translated: Trace, tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(1)
    states = {}
    for kind, layers in translated.attended.items():
        states[kind] = {}
        for layer, step in layers.items():
            projection = OutputProjection(
                torch.randn(3, 7, 21, generator=generator), torch.randn(21, generator=generator)
            )
            output = projection(step.context)
            states[kind][layer] = LayerStates(output, output, output, output, projection)
    trace = replace(translated, states=states)
    page = opened(trace.html(tmp_path / "page.html", token="chat", head="cross L1H2"), address="#step=8")
    wanted = trace["cross L1H2"].contributions("chat").vectors.sum(dim=0)[:N_SHOWN]
    assert numbers(table(page, "dimensions:not(.lengths)")["H2"]) == pytest.approx(wanted.tolist(), abs=1e-4)


def test_a_page_without_hidden_vectors_says_so(shown: Callable[..., Page], snake_page: Path) -> None:
    page = shown(snake_page)
    expect(view(page, "steps").locator(".stages button").last).to_have_text("6 · weighted sum")
    expect(view(page, "steps").get_by_text(NONE_KEPT)).to_be_visible()
    page.get_by_label("Language").select_option("ko")
    expect(view(page, "steps").get_by_text("이 페이지에는 출력 투영 행렬 W_O가 없어서")).to_be_visible()


def test_rows_of_another_length_have_no_record(kept: Trace) -> None:
    state = kept.states["encoder"][1]
    names = ("before", "attention", "feed_forward", "after")
    blocks: dict[str, str] = {}
    merged = replace(state, **{name: getattr(state, name)[:5] for name in names})
    assert output_record("layer", kept.attended["encoder"][1], merged, blocks) is None
    assert blocks == {}
