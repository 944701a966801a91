"""Read JSON files that may be damaged."""

import json
import re
from pathlib import Path
from typing import Any

Json = Any
"""A value that can be written as JSON."""

SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
"""The JSON escape of a surrogate, half of a UTF-16 pair. JSON allows one half alone; UTF-8 cannot encode it."""


def read_json(path: Path) -> Any:
    """Return the content of a JSON file; raise OSError, or ValueError as `parse_json` does."""
    return parse_json(path.read_bytes())


def parse_json(content: bytes) -> Any:
    """Parse JSON; raise ValueError for damaged text, too deep nesting, and a lone surrogate in a string."""
    try:
        value = json.loads(content)
    except RecursionError as error:
        raise ValueError("its brackets are nested too deeply") from error
    if SURROGATE.search(content):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise ValueError("a string in it has a lone surrogate") from error
    return value
