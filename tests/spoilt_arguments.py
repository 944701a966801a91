"""Arguments of C functions that are made wrong on purpose, for tests of the functions' error messages."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest


def spoil_arguments(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, spoil: Callable[[Any], object], function: str | None = None
) -> None:
    """Make `module` call `spoil` on the arguments of a C function, or of every one, before they are checked."""
    check = module.check_arguments

    def spoilt(name: str, arguments: Any) -> None:
        if function in (None, name):
            spoil(arguments)
        check(name, arguments)

    monkeypatch.setattr(module, "check_arguments", spoilt)
