"""A worked example of attention as JSON, for other programs."""

import json
import math
from typing import Any

from regard.by_hand.worked_attention import Stage, WorkedAttention


def worked_json(worked: WorkedAttention) -> str:
    """Return a worked example as JSON: every matrix with all digits of its numbers, null for -∞."""
    inputs = worked.inputs
    record = {
        "title": inputs.title,
        "source": inputs.source,
        "notes": worked.notes,
        "queries": inputs.query_texts,
        "keys": inputs.key_texts,
        "query": worked.query,
        "n_heads": inputs.n_heads,
        "temperature": inputs.temperature,
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
