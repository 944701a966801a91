"""The benchmarks as a package, so that `python -m benchmarks.NAME` can import the modules that they share."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
