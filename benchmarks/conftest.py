"""The small benchmarks run as users run: without the checks of every shape that the tests add.

The other files here are scripts, whose examples tests/test_benchmarks.py checks.
"""

from pathlib import Path

import jaxtyping

jaxtyping.config.update("jaxtyping_disable", True)

collect_ignore = [path.name for path in Path(__file__).parent.glob("*.py") if not path.name.startswith("test_")]
