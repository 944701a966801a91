"""What the steps of a site's page say of the output projection W_O, compared with `contributions` in Python."""

from urllib.parse import urlencode

import pytest
from page_views import columns, numbers
from playwright.sync_api import Page, expect

from regard.tracing.trace import Trace
from regard.views.page.outputs import N_SHOWN


def check_output(tab: Page, address: str, exact: Trace, name: str) -> None:
    """Let a site read a text, and compare what a head adds to the second token with Python's numbers.

    Args:
        exact: the trace of the text in Python, with its hidden vectors; at most 10 tokens, so that each has its row.
        name: the head's name, such as "L1H1" or "cross L1H1".
    """
    *kind, head = name.split()
    shown, layer = exact[name], int(head[1])
    choice = {"text": exact.text, "head": head, "kind": "".join(kind), "step": 8, "query": 1}  # 8: OUTPUT in stages.ts
    tab.goto(f"{address}#{urlencode(choice)}")
    steps = tab.locator("[data-view=steps]")
    expect(steps.locator("table.steps tbody th")).to_have_text([token.text for token in shown.keys])
    of_heads = exact.contributions(1, layer, *kind).vectors.double().sum(dim=1)
    own, others = of_heads[shown.number, :N_SHOWN], of_heads.sum(dim=0)[:N_SHOWN] - of_heads[shown.number, :N_SHOWN]
    seen = columns(steps.locator("table.dimensions:not(.lengths)"))
    assert numbers(seen[head[2:]]) == pytest.approx(own.tolist(), abs=1e-4)
    assert numbers(seen["other heads"]) == pytest.approx(others.tolist(), abs=1e-4)
    output = exact.states[shown.kind][layer].attention[1, :N_SHOWN]
    assert numbers(seen["sum"]) == pytest.approx(output.tolist(), abs=1e-4)
    lengths = of_heads.norm(dim=1).sort(descending=True).values
    assert numbers(columns(steps.locator("table.lengths"))["length"]) == pytest.approx(lengths.tolist(), abs=1e-4)
    added = numbers(columns(steps.locator("table.steps"))["length added"])
    assert added == pytest.approx(shown.contributions(1).lengths.tolist(), abs=1e-4)
