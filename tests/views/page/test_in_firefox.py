"""The page in a second browser engine: its weights are Python's there too."""

from pathlib import Path

import pytest
from firefox import in_firefox

from regard import Trace


@pytest.mark.slow
def test_every_token_s_weights_are_those_of_python(snake: Trace, tmp_path: Path) -> None:
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
    for place, shown in enumerate(in_firefox(*steps)):
        top = head.top(place, len(shown))
        assert [float(row[-6:]) for row in shown] == pytest.approx([key.weight for key in top], abs=6e-5)
        assert [row[:-6] for row in shown][:3] == [str(key.token) for key in top][:3]
