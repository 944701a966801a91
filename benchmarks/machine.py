"""What a table was measured on: enough to judge its numbers by, and nothing that names the machine or the day."""

import os
import platform
from importlib.metadata import version
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import torch

BUSY_PERCENT = 10
"""From so much on of the CPU that others use, times are not to be trusted."""


def machine(*libraries: str) -> dict[str, str]:
    """The processor, its memory, the threads, and the versions of what ran.

    Args:
        libraries: other than Python, torch and regard, by the names they are installed under.
    """
    busy = psutil.cpu_percent(interval=1)
    facts = {
        "CPU": f"{processor()}, {os.cpu_count()} cores, {torch.backends.cpu.get_cpu_capability()}",
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "threads": str(torch.get_num_threads()),
        "busy before": f"{busy:.0f} %" + (" (not idle: times are not to be trusted)" if busy >= BUSY_PERCENT else ""),
        "Python": platform.python_version(),
    }
    if torch.cuda.is_available():
        facts["GPU"] = torch.cuda.get_device_name()
    return facts | {name: version(name) for name in ("torch", "regard", *libraries)}


def processor() -> str:
    """The processor's name as it gives it itself."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
