"""Sites of recurrent translators in a browser: translations, scores, alignments and weights are Python's."""

from collections.abc import Callable
from pathlib import Path

import pytest
from axe import violations
from playwright.sync_api import Page, expect
from site_worker import answers, check_alignment
from site_writing import write_unchecked
from trained_translator import PAIRS, train_recurrent

from regard.text.vocabulary import Vocabulary
from regard.translation.search.beam import Beam
from regard.translation.translator import Translator

pytestmark = pytest.mark.slow

TEXT = "the cat sat on a mat"

MODELS = {
    "lstm": {"cell": "lstm", "form": "luong_feeding", "score": "location_aware", "n_layers": 2},
    "gru": {"cell": "gru", "form": "luong", "score": "dot", "attention": "local_p", "reach": 2},
}
"""Models whose decoders have different states; the score of the GRU is a dot product, but no softmax follows."""


@pytest.fixture(params=MODELS)
def translating(
    request: pytest.FixtureRequest, carried: None, serve_folder: Callable[[Path], str], tmp_path: Path
) -> tuple[str, Translator]:
    """The address of the site of a recurrent translator, and the translator in Python."""
    source, target = (Vocabulary.train(lines * 9, 53) for lines in ([*PAIRS], [*PAIRS.values()]))
    folder = train_recurrent(source, target, **MODELS[request.param]).save(tmp_path / "en-de")
    write_unchecked(tmp_path / "site", translator=folder, text=TEXT)
    return serve_folder(tmp_path / "site"), Translator.load(folder, device="cpu")


def test_translations_alignments_and_weights_are_python_s(tab: Page, translating: tuple[str, Translator]) -> None:
    address, python = translating
    tab.set_viewport_size({"width": 360, "height": 800})
    tab.goto("about:blank")
    tab.goto(address)
    alignment = tab.locator("[data-view=alignment]")
    expect(alignment.locator(".arcs path")).not_to_have_count(0)
    texts = ["no cat ran to a dog", "I am a mat.", "dog", TEXT]
    found = answers(tab, address, texts, ("target_text", "alignment"), kind="cross", layer=0, head=0)
    for text, answer in zip(texts, found, strict=True):
        exact = python.translate([text], search=Beam(n_best=Beam().size))[0]
        assert answer["target_text"] == exact.text
        check_alignment(answer["alignment"], exact.page_record(), text)
    exact = python.translate([texts[1]], search=Beam(n_best=Beam().size))[0]
    tab.get_by_label("Text").fill(texts[1])
    expect(alignment.locator(".word[data-side=source]")).to_have_count(4)
    rows = alignment.locator(".candidates tbody tr")
    assert rows.locator("button").all_text_contents() == [one.text or "∅" for one in exact.candidates]
    sentence = tab.locator("[data-view=sentence]")
    sentence.locator("[role=option]").nth(2).click()
    sentence.locator(".numbers summary").click()
    expect(sentence.locator(".numbers tbody tr").first).to_be_visible()
    shown = [float(cell) for cell in sentence.locator(".numbers tbody td:last-child").all_inner_texts()]
    assert shown == pytest.approx(exact.trace["cross L0H0"].row(2).tolist(), abs=1e-4)
    assert tab.evaluate("() => document.documentElement.scrollWidth") == 360
    assert violations(tab) == []
