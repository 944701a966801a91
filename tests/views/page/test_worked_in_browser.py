"""The page of a worked example in a real browser: every number of every step is the worked example's."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from axe import violations
from page_views import cells, number, view
from playwright.sync_api import Page, expect
from refusals import refusal

from regard import Trace
from regard.by_hand.example_inputs import ExampleInputs
from regard.by_hand.examples import NAMES
from regard.by_hand.inputs_file import built_in_inputs
from regard.by_hand.linear_calls import Projection
from regard.by_hand.model_head import GENERAL_NOTE, direct_note, head_title, model_inputs
from regard.by_hand.work_out import work_out
from regard.by_hand.worked_attention import WorkedAttention
from regard.errors import InputError
from regard.tracing.focus import focus_on
from regard.tracing.model_loading import LoadedModel
from regard.views.korean import korean
from regard.views.page.worked import write_worked_page


@pytest.fixture
def shown(opened: Callable[..., Page], tmp_path: Path) -> Callable[..., Page]:
    """shown(worked, width=360) is the worked example's page in the browser, at the step "7 · weigh the values"."""

    def show(worked: WorkedAttention, address: str = "#step=7", **window: object) -> Page:
        page = opened(write_worked_page(worked, tmp_path / "steps.html"), address=address, **window)
        expect(view(page, "steps").locator("table.steps tbody tr")).not_to_have_count(0)
        return page

    return show


def columns(page: Page, table: str) -> np.ndarray:
    """The numbers of a table of the steps, an array [columns rows]; an empty cell is NaN."""
    rows = cells(view(page, "steps").locator(f"table.{table} tbody tr"))
    return np.array([[number(cell) if cell else np.nan for cell in row[1:]] for row in rows]).T


def step(page: Page, name: str) -> None:
    view(page, "steps").locator(".stages").get_by_role("button", name=name).click()


def test_it_opens_at_the_first_step_and_the_steps_are_played_and_gone_through(shown: Callable[..., Page]) -> None:
    page = shown(work_out(built_in_inputs("self-attention"), 0), address="")
    buttons, current = view(page, "steps").locator(".stages button"), view(page, "steps").locator("[aria-current=step]")
    expect(buttons.first).to_have_attribute("aria-current", "step")
    for name in ("1 · query · key", "2 · scale", "3 · exp"):
        view(page, "steps").get_by_role("button", name="next ›").click()
        expect(current).to_have_text(name)
    view(page, "steps").get_by_role("button", name="‹ back").click()
    expect(current).to_have_text("2 · scale")
    view(page, "steps").get_by_role("button", name="play").click()
    expect(current).to_have_text("3 · exp")
    for _ in range(3, buttons.count() - 1):
        view(page, "steps").get_by_role("button", name="next ›").click()
    expect(buttons.last).to_have_attribute("aria-current", "step")
    expect(view(page, "steps").get_by_role("button", name="next")).to_be_disabled()
    page.locator(".queries").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".queries [aria-selected=true]")).to_have_text("x2")


@pytest.mark.parametrize("name", NAMES)
def test_the_steps_of_every_example(shown: Callable[..., Page], name: str) -> None:
    numbers = built_in_inputs(name)
    page = shown(work_out(numbers))
    expect(page.locator("h1")).to_have_text(numbers.title)
    last = numbers.n_queries - 1
    page.locator(".queries .word").nth(last).click()
    worked = work_out(numbers, last)
    end = "" if numbers.n_heads == 1 else f"_{numbers.n_heads}"
    if end:
        page.get_by_label("Head", exact=True).select_option(str(numbers.n_heads - 1))
    stages = {stage.name.removesuffix(end) if end else stage.name: stage.matrix for stage in worked.stages}
    seen = columns(page, "steps")
    masked = stages.get("masked", stages["scores"])[last]
    exponentials = np.exp(masked - masked.max())
    scaled = [stages["scores"][last]] if numbers.scale != 1 else []  # an example without a scale has no step "scale"
    hidden = [masked] if "masked" in stages else []
    wanted = [stages["products"][last], *scaled, *hidden, exponentials, stages["weights"][last]]
    np.testing.assert_allclose(seen, wanted, atol=6e-5)
    sums = view(page, "steps").locator("table.steps tfoot td").all_inner_texts()
    assert [number(text) for text in sums if text] == pytest.approx([exponentials.sum(), 1], abs=6e-5)
    np.testing.assert_allclose(columns(page, "dimensions")[2], stages["context"][last], atol=6e-5)
    if "W_o" in numbers.matrices:
        step(page, "output")
        np.testing.assert_allclose(columns(page, "dimensions")[0], worked["output"].matrix[last], atol=6e-5)
    else:
        expect(view(page, "steps").get_by_role("button", name="output")).to_have_count(0)
    if "x" in numbers.matrices:
        step(page, "0 · project")
        strongest = int(stages["weights"][last].argmax())
        seen = columns(page, "dimensions")
        for column, letter, row in ((0, "Q", last), (1, "K", strongest), (2, "V", strongest)):
            column_numbers = seen[column][~np.isnan(seen[column])]
            np.testing.assert_allclose(column_numbers, stages[letter][row], atol=6e-5)


def test_a_number_tells_which_sum_it_came_from(shown: Callable[..., Page]) -> None:
    page = shown(work_out(built_in_inputs("self-attention"), 1))
    line = view(page, "steps").locator(".cell-sum")
    expect(line).to_have_text("Point at a number, or tap it, to see how it is computed.")
    cells = view(page, "steps").locator("table.steps tbody tr").nth(2).locator("td")
    cells.nth(0).hover()
    q, k = (work_out(built_in_inputs("self-attention"))[name].matrix for name in "QK")
    products = " + ".join(f"{a:.4f} · {b:.4f}" for a, b in zip(q[1], k[2], strict=True))
    expect(line).to_have_text(f"12.0000 = {products}")
    cells.nth(1).click()
    expect(line).to_have_text("6.9282 = 12.0000 · 0.5774")
    step(page, "0 · project")
    x, w = (built_in_inputs("self-attention").matrices[name] for name in ("x", "W_q"))
    view(page, "steps").locator("table.dimensions tbody tr").first.locator("td").first.hover()
    terms = " + ".join(f"{a:g} · {b:g}" for a, b in zip(x[1], w[:, 0], strict=True))
    expect(line).to_have_text(f"{q[1, 0]:.4f} = {terms}")


def test_a_mask_a_bias_a_softcap_a_temperature_and_a_sink(shown: Callable[..., Page]) -> None:
    numbers = replace(
        built_in_inputs("self-attention"),
        mask=np.array([[True, False, True]] * 3),
        bias=np.array([[[0.5, 1.0, -np.inf], [1.5, -1.0, 2.0], [0.0, 3.0, -0.5]]]),
        softcap=5.0,
        temperature=2.0,
        sinks=(1.0,),
    )
    worked = work_out(numbers, 1)
    page = shown(worked)
    seen = columns(page, "steps")
    weights = worked["weights"].matrix[1]
    np.testing.assert_allclose(seen[-1][:3], weights, atol=6e-5)
    np.testing.assert_allclose(seen[4][:3], worked["masked"].matrix[1] / 2, atol=6e-5)
    assert np.isneginf(seen[4][1])
    expect(view(page, "steps").locator("tr.others")).to_contain_text("sink")
    step(page, "6 · divide")
    expect(view(page, "steps").locator(".say")).to_have_text(
        "Each exponential divided by the sum is the weight; the weights and the sink’s share add up to 1."
    )
    page.locator(".queries .word").first.click()
    np.testing.assert_allclose(columns(page, "steps")[-1][:3], worked["weights"].matrix[0], atol=6e-5)


def test_a_query_that_may_attend_to_no_key_has_no_highest_score(shown: Callable[..., Page]) -> None:
    numbers = replace(built_in_inputs("self-attention"), mask=np.array([[True] * 3, [False] * 3, [True] * 3]))
    page = shown(work_out(numbers, 1))
    expected = {
        "4 · exp": "All keys are masked, so there is no highest score: each exponential is 0.",
        "6 · divide": "The sum is 0, so there is nothing to divide by: each weight is 0.",
    }
    for name, sentence in expected.items():
        step(page, name)
        expect(view(page, "steps").locator(".say")).to_have_text(sentence)
        view(page, "steps").locator("table.steps td.now").first.click()
        expect(view(page, "steps").locator(".cell-sum")).to_have_text(f"0.0000 = {sentence}")


def test_numbers_that_start_from_q_k_and_v(shown: Callable[..., Page]) -> None:
    matrices = {"Q": np.eye(2), "K": np.array([[1.0, 0], [0, 2], [3, 1]]), "V": np.array([[1.0], [2], [3]])}
    worked = work_out(ExampleInputs(title="<script>alert(1)</script>", matrices=matrices), 0)
    page = shown(worked)
    expect(page.locator("h1")).to_have_text("<script>alert(1)</script>")
    expect(view(page, "steps").get_by_role("button", name="0 · project")).to_have_count(0)
    np.testing.assert_allclose(columns(page, "steps")[-1], worked["weights"].matrix[0], atol=6e-5)


def test_a_head_of_a_model_ends_with_what_w_o_makes_of_its_context(
    shown: Callable[..., Page], minilm: LoadedModel, kept: Trace
) -> None:
    numbers, query = model_inputs(minilm.model, kept.text, head="L3H1", token="it", tokenizer=minilm.tokenizer)
    page = shown(work_out(numbers, query))
    step(page, "output")
    expect(view(page, "steps").locator(".say")).to_have_text(
        "The context times W_O gives 384 numbers: the output of attention."
    )
    added = kept["L3H1"].contributions("it").vectors.sum(dim=0)
    np.testing.assert_allclose(columns(page, "dimensions")[0], added, atol=6e-5)


def test_temperature_0_is_refused(tmp_path: Path) -> None:
    worked = work_out(built_in_inputs("self-attention").changed(temperature=0.0))
    assert refusal(InputError, write_worked_page, worked, tmp_path / "a.html") == (
        "the page shows the steps of a softmax, and attention at temperature 0 has none; give a temperature above 0, "
        "or leave --html out."
    )


def test_axe_finds_nothing_and_it_fits_a_narrow_window_and_is_korean_too(shown: Callable[..., Page]) -> None:
    page = shown(work_out(built_in_inputs("multi-head"), 0), width=360)
    assert page.evaluate("() => document.documentElement.scrollWidth") == 360
    for name, part in (("0 · project", "html"), ("exp", "[data-view=steps]"), ("output", "[data-view=steps]")):
        step(page, name)
        assert violations(page, part) == []
    page.get_by_label("Language").select_option("ko")
    expect(view(page, "steps").locator("h2")).to_have_text("단계별 계산 · x1")
    for name in ("0 · 투영", "출력"):
        step(page, name)
        assert not set(view(page, "steps").locator(".say").inner_text().split()) & {"the", "of", "and"}


@pytest.mark.parametrize("name", NAMES)
def test_title_and_source_of_every_example_are_in_korean_too(shown: Callable[..., Page], name: str) -> None:
    page = shown(work_out(built_in_inputs(name)), address="#language=ko")
    for text in page.locator("h1, .facts").all_inner_texts():
        assert re.search("[가-힣]", text), text
    expect(page).to_have_title(re.compile("[가-힣].* · regard$"))


@pytest.mark.parametrize(
    ("kind", "expected"), [("encoder", "인코더"), ("decoder", "디코더"), ("cross", "크로스 어텐션")]
)
def test_the_title_of_a_head_names_its_attention_in_korean_too(translated: Trace, kind: str, expected: str) -> None:
    title = head_title(translated, focus_on(translated, head=f"{kind} L0H2"))
    assert korean(title) == f"{translated.model} · {expected} L0H2"


def test_every_note_is_in_korean_too(minilm: LoadedModel) -> None:
    masked = replace(
        built_in_inputs("self-attention"), mask=np.zeros((3, 3), dtype=bool), sinks=(0.5,), temperature=2.0
    )
    notes = [
        *work_out(masked).notes,
        model_inputs(minilm.model, "뱀은 위험하다.", tokenizer=minilm.tokenizer)[0].notes[-1],
    ]
    projection = Projection(source=torch.zeros(2, 2), parameters=torch.zeros(2, 2), bias=None)
    for found in ({"Q": None, "K": None, "V": projection}, dict.fromkeys("QKV"), dict.fromkeys("QKV", projection)):
        notes.append(direct_note(found))
    notes.append(GENERAL_NOTE)
    assert len(notes) == 9
    for note in notes:
        assert re.search("[가-힣]", korean(note)), note
    assert "Q, K, V에서" in korean(notes[-2])
    assert korean("my own title") == "my own title"
