"""Finds out which module of a model is running, by forward hooks on all modules."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import get_ident
from typing import Any

from torch import nn

ATTENTION_NAME = re.compile("attention|attn", re.IGNORECASE)
"""Matches the class names of modules that should compute attention."""

HEAD_COUNTS = ("num_heads", "n_heads", "num_attention_heads", "n_head", "heads", "nhead", "n_attention_heads")
"""The attribute names under which modules store their number of heads."""


class RunningModules:
    """A stack of the modules of a model that are running, the innermost last, each with its path in the model."""

    def __init__(self) -> None:
        self.stack: list[tuple[str, nn.Module | None]] = [("", None)]

    @property
    def path(self) -> str:
        """The path of the innermost module that is running, such as "blocks.3.attn"; "" for the model itself."""
        return self.stack[-1][0]

    @property
    def n_heads(self) -> int | None:
        """The number of heads of the innermost module that is running; None if the module has no such attribute."""
        numbers = (getattr(self.stack[-1][1], name, None) for name in HEAD_COUNTS)
        return next((number for number in numbers if isinstance(number, int) and number > 0), None)


@contextmanager
def running_modules(
    model: nn.Module,
    entered: Callable[[int], None] | None = None,
    left: Callable[[nn.Module, bool], None] | None = None,
) -> Iterator[RunningModules]:
    """Keep track of the modules of a model that are running in this thread, inside a `with` block.

    Args:
        entered: called when a module starts, with the number of modules that are then running.
        left: called when a module ends, with the module and whether it returned an output (False if it raised an
            error).
    """
    running = RunningModules()
    thread = get_ident()

    def follow(path: str, module: nn.Module) -> None:
        def enter(module: nn.Module, args: Any) -> None:
            if get_ident() != thread:  # another thread runs the same model
                return
            running.stack.append((path, module))
            if entered is not None:
                entered(len(running.stack) - 1)

        def leave(module: nn.Module, args: Any, output: Any) -> None:
            if get_ident() != thread:
                return
            if left is not None:
                left(module, output is not None)
            running.stack.pop()

        hooks.callback(module.register_forward_pre_hook(enter).remove)
        hooks.callback(module.register_forward_hook(leave, always_call=True).remove)

    with ExitStack() as hooks:
        for path, module in model.named_modules():
            follow(path, module)
        yield running


def layer_of(path: str) -> int | None:
    """Return the layer number of a module: the first number in its path; None if the path has no number.

    >>> layer_of("encoder.layer.11.attention.self"), layer_of("pool")
    (11, None)
    """
    return next((int(name) for name in path.split(".") if name.isdecimal()), None)
