"""The front end's own code, run by node."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

FRONT = Path(__file__).parents[2] / "front"
ESBUILD = FRONT / "node_modules" / ".bin" / "esbuild"
PRINT = "console.log(JSON.stringify(answer(JSON.parse(require('fs').readFileSync(0, 'utf-8')))));"


def in_node(code: str, given: Any, folder: Path) -> Any:
    """Return what a function of TypeScript returns. The test is skipped without node or esbuild, except in CI.

    Args:
        code: defines the function `answer`, and imports from `front/src/site/`.
        given: the argument of the function, as JSON.
        folder: where the bundled code is written.
    """
    if not (ESBUILD.exists() and shutil.which("node")):
        assert "CI" not in os.environ, "`make front` installs esbuild"
        pytest.skip("the page's code is bundled with esbuild, which `make front` installs; CI always does")
    bundle = [ESBUILD, "--bundle", "--platform=node", "--loader=ts", f"--outfile={folder / 'bundle.js'}"]
    site = FRONT / "src" / "site"
    subprocess.run(bundle, input=code + PRINT, text=True, cwd=site, check=True, stderr=subprocess.DEVNULL)
    run = ["node", folder / "bundle.js"]
    found = subprocess.run(run, input=json.dumps(given), text=True, stdout=subprocess.PIPE, check=True)
    return json.loads(found.stdout)
