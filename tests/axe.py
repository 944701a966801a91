"""axe, which finds what keeps readers out of a page: `make front` installs it."""

import os
from pathlib import Path

import pytest
from playwright.sync_api import Page

AXE = Path(__file__).parents[1] / "front" / "node_modules" / "axe-core" / "axe.min.js"

RUN = """async (part) => {
    const { violations } = await axe.run(part, { resultTypes: ["violations"] });
    return violations.map(({ id, nodes }) => [id, nodes[0].html.slice(0, 200)]);
}"""
"""Returns only the violations, since sending all that axe looked at takes longer than the search."""


def violations(page: Page, part: str = "html") -> list[list[str]]:
    """Return the rule that each violation breaks and its first element; skip the test without axe, except in CI.

    Args:
        part: a selector of the part of the page to search.
    """
    if not AXE.exists() and "CI" not in os.environ:
        pytest.skip("`make front` installs axe; CI always does")
    page.evaluate(AXE.read_text())
    return list(page.evaluate(RUN, part))
