"""Reads JSON files that may be damaged."""

import json
from pathlib import Path
from typing import Any


def read_json(path: Path) -> Any:
    """Return the content of a JSON file.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is not JSON, or its brackets are nested more deeply than Python can read.
    """
    try:
        return json.loads(path.read_bytes())
    except RecursionError as error:
        raise ValueError("its brackets are nested too deeply") from error
