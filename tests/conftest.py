"""Settings of all tests, and the order in which their files run; the fixtures are in `shared_fixtures.py`.

The process that hands the tests out to workers imports no PyTorch: the workers wait until it is ready.
"""

import atexit
import gc
import os
from collections.abc import Generator
from pathlib import Path

import checked_calls  # noqa: F401 (before the conftest.py of a folder, which imports regard)
import pytest

collect_ignore = ["checked_calls.py", "shared_fixtures.py"]
"""pytest would import these files again to look for doctests, and functions would be checked by a second module."""


LONGEST = (
    "hostile/test_hostile_files.py",
    "site/test_causal_in_browser.py",
    "site/test_translator_in_browser.py",
    "site/test_recurrent_in_browser.py",
    "attention/test_torch_tools.py",
    "views/page/test_in_browser.py",
    "explore/test_map_in_browser.py",
    "test_benchmarks.py",
    "training/processes/test_hosts.py",
    "site/test_site.py",
    "site/test_in_browser.py",
    "views/page/test_widget.py",
    "explore/test_link_in_browser.py",
    "explore/test_second_text_in_browser.py",
    "training/processes/test_process_group.py",
    "export/test_onnx.py",
    "export/test_marian_onnx.py",
    "site/test_minilm.py",
    "attention/test_flex.py",
    "views/page/test_link_in_browser.py",
    "attention/statistics/test_gpu.py",
    "training/test_train.py",
    "views/page/test_layout_in_browser.py",
    "test_docs.py",
    "training/data/test_prepare.py",
    "attention/test_extremes.py",
    "views/picture/test_trace.py",
    "attention/test_attend.py",
    "explore/test_server.py",
    "views/page/test_small_cells_in_browser.py",
    "views/page/test_comparison_in_browser.py",
    "views/page/test_worked_in_browser.py",
    "site/test_in_firefox.py",
    "test_model_types.py",
    "recurrent/test_model.py",
)
"""The files whose tests take the most processor time, the longest first. One stands before them: its tests fork their
process, which is fast only while the process is small."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--cases`, how many hostile files of each kind `hostile/test_hostile_files.py` tries, and `--seed`: which."""
    parser.addoption("--cases", type=int, default=100 if "CI" in os.environ else 30, help="hostile files of each kind")
    parser.addoption("--seed", type=int, default=0, help="another number tries other hostile files")


def pytest_configure(config: pytest.Config) -> None:
    """Import the fixtures, except where all tests run in other processes."""
    is_worker = hasattr(config, "workerinput")
    distributed = config.getoption("dist", "no") != "no" and not config.getoption("collectonly")
    if is_worker or not distributed:
        config.pluginmanager.import_plugin("shared_fixtures")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return one worker more than there are cores: a worker waits while its browser or its other processes compute."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector of Python, which finds nothing then and takes a quarter of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()  # the collected tests stay to the end: the collector need not look at them again
        atexit.register(gc.unfreeze)  # extensions complain of objects that are left when Python ends
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that no worker still has a long one when the others are done."""
    here = Path(__file__).parent
    missing = [name for name in LONGEST if not (here / name).exists()]
    if missing and "CI" in os.environ:
        raise pytest.UsageError(f"LONGEST in {__file__} names {', '.join(missing)}, which do not exist.")
    places = {here / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))
