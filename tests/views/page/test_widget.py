"""The page as a notebook's widget: what the reader chooses reaches Python, and what Python chooses reaches the page."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from urllib.error import URLError

import pytest
import torch
from playwright.sync_api import FrameLocator, Page, expect
from refusals import refusal

from regard import Trace, attend
from regard.errors import InputError
from regard.views.page.widget import SCRIPT, TraceWidget

NOTEBOOK = """<!doctype html><meta charset="utf-8"><script type="module">
const modelOf = (values) => {
  const listeners = new Set();
  return {
    get: (name) => values[name],
    set: (name, value) => {
      if (values[name] === value) return;
      values[name] = value;
      listeners.forEach((listener) => listener());
    },
    save_changes: () => { window.saved = { ...values }; },
    on: (event, listener) => { if (event === "change:address") listeners.add(listener); },
    off: (event, listener) => listeners.delete(listener),
  };
};
__SCRIPT__
window.models = __VALUES__.map(modelOf);
window.display = (number) => {
  const el = document.createElement("div");
  document.body.append(el);
  return render({ model: models[number], el });
};
window.model = models[0];
window.remove = display(0);
models.slice(1).forEach((_, i) => display(i + 1));
</script>"""
"""A web page that imitates a notebook: it gives the widgets' script a model of values for each, and an HTML element."""


CELLS = ".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell"
"""The cells of the notebook that JupyterLab shows; others may be open in tabs behind it."""


def written(values: object) -> str:
    """JSON for a script element."""
    return json.dumps(values).replace("<", "\\u003c")


@pytest.fixture
def opened_widget(opened: Callable[..., Page], tmp_path: Path) -> Callable[..., Page]:
    """opened_widget(widget, other) is a page in the browser with the widgets in it, one under the other."""

    def show(*widgets: TraceWidget) -> Page:
        values = written([{"document": widget.document, "address": widget.address} for widget in widgets])
        path = tmp_path / "notebook.html"
        path.write_text(
            NOTEBOOK.replace("__VALUES__", values).replace(
                "__SCRIPT__", SCRIPT.replace("export default { render };", "")
            ),
            encoding="utf-8",
        )
        return opened(path)

    return show


def test_a_widget_knows_its_head_and_token(snake: Trace) -> None:
    widget = snake.widget(token="it", head="L3H1")
    assert (widget.head["it", "snake"], widget.head.name) == (snake["L3H1"]["it", "snake"], "L3H1")
    assert widget.token == snake.tokens[7]
    heard: list[str] = []
    widget.on_select(lambda changed: heard.append(f"{changed.head.name} {changed.token}"))
    widget.select("L2H0")
    widget.select(token="venom")
    assert heard == ["L2H0 it", "L2H0 venom"]
    widget.address = "head=L4average&query=all"
    assert (widget.head.name, widget.token) == ("L4average", None)


def test_a_widget_of_an_encoder_decoder_names_the_kind(handmade: Callable[..., Trace]) -> None:
    encoder, decoder = handmade("a b c"), handmade("d e", kind="decoder")
    query, key = torch.randn(1, 3, 2, 5), torch.randn(1, 3, 3, 5)
    cross = {"cross": {0: attend(query, key, key)}}
    pair = replace(encoder, target=decoder.target, attended={**encoder.attended, **decoder.attended, **cross})
    widget = pair.widget(token="e", head="cross L0H1")
    assert (widget.head.kind, widget.head.name, widget.token) == ("cross", "L0H1", decoder.target[1])
    widget.address = "kind=encoder&head=L1H0&query=2"
    assert (widget.head.kind, widget.token) == ("encoder", encoder.source[2])


def test_a_widget_of_no_such_token_is_refused(snake: Trace) -> None:
    assert refusal(InputError, snake.widget, token="dog") == "no token 'dog' in the text; nearest: [CLS], The, snake."


def test_where_no_widget_can_be_shown_there_is_a_picture(snake: Trace) -> None:
    data, _ = snake.widget()._repr_mimebundle_()
    assert data["text/plain"] == repr(snake)
    assert data["image/png"].startswith(b"\x89PNG")
    assert "application/vnd.jupyter.widget-view+json" in data


def shown(frame: FrameLocator) -> dict[str, object]:
    """What a page in a notebook shows, and how its switches are set."""
    return {
        "title": frame.locator("[data-view=sentence] h2").inner_text(),
        "hidden": frame.locator(".controls [type=checkbox]").nth(1).is_checked(),
        "circles": frame.locator("[data-view=pattern] .choice button").nth(1).get_attribute("aria-pressed"),
        "queries": frame.locator("[data-view=pattern] .choice button").nth(3).get_attribute("aria-pressed"),
        "temperature": frame.get_by_role("slider").input_value(),
        "step": frame.locator(".stages [aria-current]").inner_text(),
    }


def flip_switches(frame: FrameLocator) -> None:
    frame.locator(".controls [type=checkbox]").nth(1).click()
    for number in (1, 3):
        frame.locator("[data-view=pattern] .choice button").nth(number).click()
    frame.get_by_role("slider").press("ArrowRight")
    frame.locator(".stages button").nth(1).click()


FLIPPED = {"hidden": True, "circles": "true", "queries": "true", "temperature": "0.1", "step": "2 · scale"}
"""What `shown` returns after `flip_switches`, but for the title."""


def test_widgets_and_python_choose_in_turn_and_each_widget_has_its_own_state(
    opened_widget: Callable[..., Page], snake: Trace
) -> None:
    widget, second = snake.widget(token="it", head="L3H1"), snake.widget(token="venom", head="L2H0")
    page = opened_widget(widget, second)
    one, other = page.frame_locator("iframe >> nth=0"), page.frame_locator("iframe >> nth=1")
    expect(other.locator("[data-view=sentence] h2")).to_have_text("L2H0 · venom")
    before, title = shown(other), one.locator("[data-view=sentence] h2")
    expect(title).to_have_text("L3H1 · it")
    one.locator("[data-view=sentence] .word").filter(has_text="snake").first.click()
    page.wait_for_function("() => window.saved?.address.includes('query=2')")
    widget.address = page.evaluate("() => window.saved.address")
    assert (widget.head.name, widget.token) == ("L3H1", snake.tokens[2])
    widget.select("L2H0", token="venom")
    page.evaluate("address => model.set('address', address)", widget.address)
    expect(title).to_have_text("L2H0 · venom")
    flip_switches(one)
    one.get_by_label("Layer", exact=True).select_option("4")
    page.wait_for_function("() => models[0].get('address').includes('L4H0')")
    assert shown(one) == FLIPPED | {"title": "L4H0 · venom as you changed it"}
    assert shown(other) == before
    assert "L2H0" in page.evaluate("() => models[1].get('address')")
    other.get_by_label("Layer", exact=True).select_option("5")
    page.wait_for_function("() => models[1].get('address').includes('L5H0')")
    assert shown(one) == FLIPPED | {"title": "L4H0 · venom as you changed it"}
    page.evaluate("() => { window.remove(); document.querySelector('iframe').remove(); }")  # leaves nothing behind
    page.evaluate("() => model.set('address', 'head=L0H0&query=0')")


def test_a_widget_that_is_only_displayed_tells_python_nothing(opened_widget: Callable[..., Page], snake: Trace) -> None:
    """A page tells only what its reader chose: another display may have a token chosen when this page opens."""
    page = opened_widget(snake.widget(token="it", head="L3H1"))
    title = page.frame_locator("iframe").locator("[data-view=sentence] h2")
    expect(title).to_have_text("L3H1 · it")
    page.wait_for_timeout(1_000)
    assert page.evaluate("() => window.saved") is None
    page.frame_locator("iframe").locator("[data-view=sentence] .word", has_text="snake").first.click()
    page.wait_for_function("() => window.saved?.address.includes('query=2')")


@pytest.mark.slow
def test_a_widget_that_is_displayed_twice_shares_head_and_token_but_no_switch(
    opened_widget: Callable[..., Page], snake: Trace
) -> None:
    page = opened_widget(snake.widget(token="it", head="L3H1"))
    one = page.frame_locator("iframe >> nth=0")
    one.locator("[data-view=sentence] .word", has_text="snake").first.click()
    page.wait_for_function("() => model.get('address').includes('query=2&locked=1')")
    flip_switches(one)
    page.wait_for_function("() => model.get('address').includes('circles')")
    # the second display begins with the chosen head and token, but with switches of its own
    page.evaluate("() => void display(0)")
    other = page.frame_locator("iframe >> nth=1")
    expect(other.locator("[data-view=sentence] h2")).to_have_text("L3H1 · snake")
    usual = shown(other)
    assert not {name for name, value in FLIPPED.items() if usual[name] == value}
    flip_switches(one)  # the checkbox is off again, and the temperature rises again; the other choices stay
    one.get_by_label("Layer", exact=True).select_option("2")
    expect(other.locator("[data-view=sentence] h2")).to_have_text("L2H1 · snake")
    assert shown(other) == usual | {"title": "L2H1 · snake"}
    assert shown(one) == FLIPPED | {"title": "L2H1 · snake as you changed it", "hidden": False, "temperature": "0.2"}
    other.get_by_label("Layer", exact=True).select_option("3")  # the layer that the first display had before
    expect(one.locator("[data-view=sentence] h2")).to_have_text("L3H1 · snake as you changed it")
    for layer in ("2", "3"):  # the first display leaves the layer that it got from the second, and returns to it
        one.get_by_label("Layer", exact=True).select_option(layer)
        expect(other.locator("[data-view=sentence] h2")).to_have_text(f"L{layer}H1 · snake")
    page.evaluate("() => model.set('address', 'head=L0H5&query=7&locked=1')")  # as if Python chose
    for frame, changed in ((one, " as you changed it"), (other, "")):
        expect(frame.locator("[data-view=sentence] h2")).to_have_text(f"L0H5 · it{changed}")
    assert shown(other) == usual | {"title": "L0H5 · it"}


@pytest.fixture
def lab(tab: Page, tmp_path: Path) -> Iterator[str]:
    """The address of a real JupyterLab in `tmp_path`; without JupyterLab the test is skipped, but not by CI."""
    command = Path(sys.executable).with_name("jupyter-lab")
    if not command.exists() and "CI" not in os.environ:
        pytest.skip("the notebook is tested in JupyterLab: pip install jupyterlab; CI always does")
    folders = {name: str(tmp_path / name) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")}
    settings = ["--allow-root", "--no-browser", "--ip=127.0.0.1", "--port=0", "--IdentityProvider.token=known"]
    with (tmp_path / "lab.log").open("w") as log:
        process = subprocess.Popen(
            [command, *settings, "--LabApp.news_url="],
            cwd=tmp_path,
            env=os.environ | folders,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield address_of_server(Path(folders["JUPYTER_RUNTIME_DIR"]), tmp_path / "lab.log")
    finally:
        tab.goto("about:blank")  # its page would complain that the server is gone
        os.killpg(process.pid, signal.SIGKILL)  # when it is asked to end, it may wait for its kernel for a long time
        process.wait()


def address_of_server(folder: Path, log: Path) -> str:
    for _ in range(600):
        for file in folder.glob("jpserver-*.json"):
            address = json.loads(file.read_text())["url"]
            with suppress(URLError), urllib.request.urlopen(f"{address}api?token=known"):  # it may not listen yet
                return str(address)
        time.sleep(0.1)
    raise AssertionError(log.read_text())


def write_notebook(path: Path, *cells: str) -> None:
    code = [
        {"cell_type": "code", "execution_count": None, "id": f"c{n}", "metadata": {}, "outputs": [], "source": cell}
        for n, cell in enumerate(cells)
    ]
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    path.write_text(json.dumps({"cells": code, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}))


@pytest.mark.slow
def test_a_real_notebook_tells_python_what_its_reader_chose(tab: Page, lab: str, snake: Trace, tmp_path: Path) -> None:
    saved = snake.save(tmp_path / "snake.safetensors")
    write_notebook(
        tmp_path / "snake.ipynb",
        f"import regard\nwidget = regard.Trace.load({str(saved)!r}).widget(token='it', head='L3H1')\nwidget",
        "print(widget.head.name, widget.token)",
        "widget.trace.encoder[3]",
    )
    tab.set_viewport_size({"width": 1200, "height": 1600})
    tab.goto(f"{lab}lab/tree/snake.ipynb?token=known")
    cells = tab.locator(CELLS)
    expect(cells).to_have_count(3)
    run(tab, 0)
    inner = cells.nth(0).frame_locator("iframe[title=regard]")
    expect(inner.locator("[data-view=sentence] h2")).to_have_text("L3H1 · it", timeout=60_000)
    inner.locator("[data-view=sentence] .word").filter(has_text="snake").first.click()
    expect(inner.locator("[data-view=sentence] h2")).to_have_text("L3H1 · snake")
    tab.wait_for_timeout(500)  # the widget waits until the pointer rests
    run(tab, 1)
    expect(cells.nth(1).locator(".jp-OutputArea")).to_have_text("L3H1 snake")
    run(tab, 2)
    expect(cells.nth(2).locator(".jp-OutputArea img")).to_be_visible()  # the pattern of a layer

    tab.keyboard.press("Control+s")
    stored = tmp_path / "snake.ipynb"
    for _ in range(100):
        if "image/png" in stored.read_text():
            break
        tab.wait_for_timeout(100)
    mailed = stored.read_text().replace("print(", "print( ")  # other code, so not a notebook that was run here
    (tmp_path / "mailed.ipynb").write_text(mailed)
    tab.goto(f"{lab}lab/tree/mailed.ipynb?token=known")
    expect(tab.locator(CELLS).nth(0).locator(".jp-OutputArea img")).to_be_visible()
    expect(tab.locator(f"{CELLS} iframe[title=regard]")).to_have_count(0)


def run(tab: Page, cell: int) -> None:
    """Run a cell once the kernel is ready."""
    expect(tab.get_by_text("| Idle")).to_be_visible()
    tab.locator(CELLS).nth(cell).locator(".cm-content").click()
    tab.keyboard.press("Control+Enter")
