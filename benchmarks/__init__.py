"""Lets `python -m benchmarks.NAME` find the modules that a benchmark shares with the others."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
