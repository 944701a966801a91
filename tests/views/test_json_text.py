"""The JSON of a comparison of traces whose layers have different numbers of heads."""

import json

from regard import compare
from regard.views.json_text import comparison_json


def test_the_entries_of_missing_heads_are_null(uneven):
    small, large = json.loads(comparison_json(compare(uneven, uneven)))["layers"]
    for name, entry in (("heads", 0.0), ("tokens", "a"), ("weights", 0.0)):
        assert (small[name], large[name]) == ([entry, entry, None, None], [entry] * 4)
