"""A worked example of attention as JSON, for other programs."""

import json
import math
from typing import Any

from regard.by_hand.worked_attention import Stage, WorkedAttention


def worked_json(worked: WorkedAttention) -> str:
    """Return a worked example as JSON: every matrix with all digits of its numbers, null for -∞."""
    numbers = worked.numbers
    record = {
        "title": numbers.title,
        "source": numbers.source,
        "notes": worked.notes,
        "queries": numbers.query_texts,
        "keys": numbers.key_texts,
        "query": worked.query,
        "n_heads": numbers.n_heads,
        "temperature": numbers.temperature,
        "stages": [stage_record(stage) for stage in worked.stages],
    }
    return json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n"


def stage_record(stage: Stage) -> dict[str, Any]:
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
