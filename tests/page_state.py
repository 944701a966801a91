"""All that a page shows, so that tests compare it with the page that a link to it opens."""

from collections.abc import Callable, Sequence

from playwright.sync_api import Page, expect

STATE = """async (rest) => {
    const all = (selector) => [...document.querySelectorAll(selector)];
    const value = (field) => (field.type === "checkbox" ? field.checked : field.value);
    const chosen = (one) => ["aria-pressed", "aria-current", "aria-selected"].map((name) => one.getAttribute(name));
    const digest = async (canvas) => {
        const { width, height } = canvas;
        if (!width || !height) return "";
        const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
        return `${width} ${height} ${new Uint32Array(await crypto.subtle.digest("SHA-1", data))}`;
    };
    const look = async () => ({
        fields: all("select, input").map((one) => [one.ariaLabel, value(one)]),
        chosen: all("button, [role=option], tr").map((one) => [one.textContent, ...chosen(one)]),
        text: document.body.innerText,
        curves: all("main svg").map((one) => one.innerHTML),
        pictures: await Promise.all(all("canvas").map(digest)),
    });
    for (let before = null, now = await look(); ; now = await look()) {
        if (JSON.stringify(now) === JSON.stringify(before)) return now;
        before = now;
        await new Promise((rested) => setTimeout(rested, rest));
    }
}"""
"""Returns what a page shows once it has shown the same for `rest` milliseconds."""

MOST_LOOKS = 60
"""How often a page is looked at that does not show yet what it should."""


def state(page: Page, rest: int = 120) -> dict[str, object]:
    """The fields, pressed buttons, text and pictures of a page, once they have not changed for `rest` milliseconds."""
    page.mouse.move(0, 0)
    expect(page.locator(".turns")).to_have_count(0)  # a map is computed
    shown: dict[str, object] = page.evaluate(STATE, rest)
    return shown


def assert_link_restores(page: Page, choices: Sequence[Callable[[Page], object]]) -> None:
    """Make choices, each of which changes the page and its link; the link then opens a page that shows the same."""
    usual, address = state(page), page.url
    for number, choose in enumerate(choices):
        choose(page)
        chosen = state(page)
        assert chosen != usual, f"choice {number} changes nothing"
        expect(page, f"choice {number} is not in the link").not_to_have_url(address)
        usual, address = chosen, page.url
    late = page.url.startswith("http")  # on a busy machine the last answer of a server may come late
    usual, address = state(page, rest=1000 if late else 120), page.url
    page.goto("about:blank")
    page.goto(address)
    for _ in range(MOST_LOOKS):
        if (now := state(page)) == usual:
            return
    assert now == usual
