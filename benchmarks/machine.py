"""The hardware and software that a table was measured with, without the machine's name or the date."""

import os
import platform
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import torch

BROWSERS = "chromium", "chromium-browser", "google-chrome", "chromium-headless-shell"

BUSY_PERCENT = 10
"""The processor use by other programs above which measured times are unreliable."""


def machine(*libraries: str) -> dict[str, str]:
    """Return the processor, its memory, the number of threads, and the versions of torch, regard and `libraries`."""
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
    return facts | {name: version_of(name) for name in ("torch", "regard", *libraries)}


def version_of(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "not installed"


def browser_path() -> str | None:
    """Return the path of an installed Chromium; None = there is none, and Playwright runs its own."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def processor() -> str:
    """Return the processor's model name and, on Linux, the numbers of its family and model.

    A virtual machine may report only "AMD EPYC", whose families 25 (Zen 4) and 26 (Zen 5) differ by a factor of two.
    """
    cpuinfo = Path("/proc/cpuinfo")
    if not cpuinfo.exists():
        return platform.processor() or platform.machine()
    lines = [line.partition(":") for line in cpuinfo.read_text().splitlines()]
    facts = {name.strip(): value.strip() for name, _, value in lines}
    name = facts.get("model name") or platform.machine()
    numbers = [f"{label} {facts[label]}" for label in ("cpu family", "model") if label in facts]
    return f"{name} ({', '.join(numbers)})" if numbers else name
