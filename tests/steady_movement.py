"""Whether the view of movement keeps a drawing while the page reads a new text."""

from playwright.sync_api import Page, expect

COUNT_ABSENCES = """() => {
    window.absences = 0;
    const look = () => (window.absences += !document.querySelector("[data-view=movement] svg.plane"));
    new MutationObserver(look).observe(document.body, { childList: true, subtree: true });
}"""


def check_steady(page: Page, text: str, n_tokens: int) -> None:
    """Type a text of `n_tokens` tokens; check that the view has a drawing at each change of the page."""
    view = page.locator("[data-view=movement]")
    expect(view.locator("svg.plane")).to_be_visible()
    before = view.locator("table.parts").inner_text()
    page.evaluate(COUNT_ABSENCES)
    page.get_by_label("Text").fill(text)
    expect(page.locator(".arcs .word")).to_have_count(n_tokens)
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    query = page.locator(".arcs .word[aria-selected=true] bdi").first.inner_text()
    expect(view.locator("h2")).to_contain_text(f" · {query}")
    assert view.locator("table.parts").inner_text() != before
    assert page.evaluate("absences") == 0
