"""Firefox as a second browser engine for the tests, driven by `front/firefox.mjs`."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

FRONT = Path(__file__).parents[1] / "front"


def in_firefox(*steps: list[Any]) -> list[list[str]]:
    """Run steps in Firefox, such as ["open", URL] or ["read", selector]; return the texts that each "read" found.

    The test fails if the page logs an error. It is skipped without Firefox, node or puppeteer-core, except in CI.
    """
    firefox, node = shutil.which("firefox-esr") or shutil.which("firefox"), shutil.which("node")
    if not (firefox and node and (FRONT / "node_modules/puppeteer-core").exists()) and "CI" not in os.environ:
        pytest.skip("the page is tested in Firefox too: install firefox-esr and run `make front`; CI always does")
    assert firefox, "these tests need Firefox on the PATH"
    assert node, "these tests need node on the PATH"
    done = subprocess.run(
        [node, "firefox.mjs", firefox], cwd=FRONT, input=json.dumps(steps), capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["complaints"] == []
    return list(answer["found"])
