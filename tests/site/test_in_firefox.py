"""A site in a second browser engine: the model runs there, and its weights are Python's."""

from pathlib import Path

import pytest
from firefox import in_firefox

import regard
from regard.tracing.model_loading import load

RAIN = "It rains today, and the old man looks at the river."


@pytest.mark.slow
def test_typed_text_has_the_weights_of_python(served, small: Path) -> None:
    model = load(str(small))
    wanted = regard.trace(model.model, RAIN, tokenizer=model.tokenizer)
    head = wanted["L1H2"]
    (title,), shown = in_firefox(
        ["open", f"{served.address}#head=L1H2"],
        ["await", ".word"],
        ["type", "[data-role=text]", RAIN],
        ["await", ".facts", f"small · 2 layers × 3 heads · {len(wanted.tokens)} tokens"],
        ["await", ".top li"],
        ["read", "[data-view=sentence] h2"],
        ["read", ".top li"],
    )
    name, token = title.split(" · ")
    assert name == "L1H2"
    top = head.top(token, len(shown))
    assert [float(row[-6:]) for row in shown] == pytest.approx([key.weight for key in top], abs=1.5e-4)
