"""The page, and a site, in a second browser engine: weights are Python's there too, and the site's model runs."""

from pathlib import Path

import pytest
from firefox import in_firefox

import regard
from regard import Trace
from regard.tracing.model_loading import load

RAIN = "It rains today, and the old man looks at the river."


@pytest.mark.slow
def test_weights_are_those_of_python(snake: Trace, served, small: Path, tmp_path: Path) -> None:
    address = snake.html(tmp_path / "page.html", token="it", head="L3H1").as_uri()
    head, word = snake["L3H1"], "[data-view=sentence] .word"
    steps = [["open", address], ["await", ".top li"]]
    for place, token in enumerate(snake.tokens):
        steps += [
            ["hover", word, place],
            ["await", "[data-view=sentence] h2", f"L3H1 · {token}"],
            ["await", ".top li", f"{head.top(place)[0].token}{head.top(place)[0].weight:.4f}"],
            ["read", ".top li"],
        ]
    model = load(str(small))
    wanted = regard.trace(model.model, RAIN, tokenizer=model.tokenizer)
    *of_page, (title,), of_site = in_firefox(
        *steps,
        ["open", f"{served.address}#head=L1H2"],
        ["await", ".word"],
        ["type", "[data-role=text]", RAIN],
        ["await", ".facts", f"small · 2 layers × 3 heads · {len(wanted.tokens)} tokens"],
        ["await", ".top li"],
        ["read", "[data-view=sentence] h2"],
        ["read", ".top li"],
    )
    assert len(of_page) == len(snake.tokens)
    for place, shown in enumerate(of_page):
        top = head.top(place, len(shown))
        assert [float(row[-6:]) for row in shown] == pytest.approx([key.weight for key in top], abs=6e-5)
        assert [row[:-6] for row in shown][:3] == [str(key.token) for key in top][:3]
    name, token = title.split(" · ")
    assert name == "L1H2"
    top = wanted["L1H2"].top(token, len(of_site))
    assert [float(row[-6:]) for row in of_site] == pytest.approx([key.weight for key in top], abs=1.5e-4)
