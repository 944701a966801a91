"""axe, which finds what keeps readers out of a page: `make front` installs it."""

import os
from pathlib import Path

import pytest
from playwright.sync_api import Page

AXE = Path(__file__).parents[1] / "front" / "node_modules" / "axe-core" / "axe.min.js"

RUN = """async ([part, rules]) => {
    for (let frame = 0; frame < 3; frame += 1) await new Promise(requestAnimationFrame); // other colours are drawn
    const { violations } = await axe.run(part, { resultTypes: ["violations"], ...rules });
    return violations.map(({ id, nodes }) => [id, nodes[0].html.slice(0, 200)]);
}"""
"""Returns only the violations, since sending all that axe looked at takes longer than the search."""

SCHEMES = {"dark": {"runOnly": ["color-contrast"]}, "light": {}}
"""The rules for each scheme of colours; in a second scheme, only the contrast of colours can be another."""


def violations(page: Page, part: str = "html") -> list[list[str]]:
    """Return the rule of each violation and its first element, in dark colours, then in light ones.

    Without axe the test is skipped, except in CI.
    """
    if not AXE.exists() and "CI" not in os.environ:
        pytest.skip("`make front` installs axe; CI always does")
    page.evaluate(AXE.read_text())
    found: list[list[str]] = []
    for scheme, rules in SCHEMES.items():
        page.emulate_media(color_scheme=scheme)
        found += page.evaluate(RUN, [part, rules])
    return found
