"""The benchmarks as a package: `python -m benchmarks.NAME` can then import the modules that several of them share."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
