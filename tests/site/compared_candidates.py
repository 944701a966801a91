"""A translation that a page shows, compared with Python's."""

from typing import Any

import pytest


def compare_candidates(found: dict[str, Any], wanted: dict[str, Any], text: str) -> None:
    """Fail unless a candidate translation in the page has the numbers that Python computes."""
    assert found["text"] == wanted["text"], text
    for name in ("source_words", "target_words", "source_word_of", "target_word_of"):
        assert found[name] == wanted[name], (name, text)
    for name in ("score", "log_probability"):
        assert found[name] == pytest.approx(wanted[name], abs=1e-4), (name, text)
    assert [found["pieces"][side] for side in ("source", "target")] == [
        wanted["pieces"][side] for side in ("source", "target")
    ]
    for own, exact in ((found, wanted), (found["pieces"], wanted["pieces"])):
        for row, exact_row in zip(own["weights"], exact["weights"], strict=True):
            assert row == pytest.approx(exact_row, abs=1e-4), text
