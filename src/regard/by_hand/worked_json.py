"""Worked attention as JSON, for other programs: every stage with all its digits."""

import json
import math
from typing import Any

from regard.by_hand.worked_attention import Stage, WorkedAttention, token_texts


def worked_json(worked: WorkedAttention) -> str:
    """Every stage with all its digits, as JSON; a -∞ is null."""
    numbers = worked.numbers
    facts = {
        "title": numbers.title,
        "source": numbers.source,
        "notes": worked.notes,
        "queries": token_texts(numbers.queries),
        "keys": token_texts(numbers.keys),
        "query": worked.query,
        "n_heads": numbers.n_heads,
        "temperature": numbers.normalise.temperature,
        "stages": [stage_facts(stage) for stage in worked.stages],
    }
    return json.dumps(facts, ensure_ascii=False, allow_nan=False) + "\n"


def stage_facts(stage: Stage) -> dict[str, Any]:
    """One stage as JSON can say it."""
    return {
        "section": stage.section,
        "name": stage.name,
        "formula": stage.formula,
        "head": stage.head,
        "shape": list(stage.matrix.shape),
        "rows": stage.rows,
        "columns": stage.columns,
        "matrix": [[None if number == -math.inf else number for number in row] for row in stage.matrix.tolist()],
    }
