"""Finds out which module of a model is running, by forward hooks on all modules."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from threading import get_ident
from typing import Any

from torch import nn

ATTENTION_NAME = re.compile("(attention|attn)(?!.*bias$)", re.IGNORECASE)
"""Matches class names that contain "attention" or "attn" and do not end in "bias": modules that compute attention."""

HEAD_COUNTS = ("num_heads", "n_heads", "num_attention_heads", "n_head", "heads", "nhead", "n_attention_heads")


@dataclass(frozen=True, slots=True)
class HeadCounts:
    """The numbers of heads of a module, found in its attributes or its config; None = unknown.

    `key_heads` is known only in modules of transformers with grouped queries: there, `group` query heads share a key
    head. In other modules, `group` is 1.
    """

    query_heads: int | None = None
    key_heads: int | None = None
    group: int = 1

    @classmethod
    def of(cls, module: nn.Module | None) -> "HeadCounts":
        """Return the numbers of heads in a module's attributes; that of its config serves only to find `key_heads`."""
        numbers = (getattr(module, name, None) for name in HEAD_COUNTS)
        query_heads = next((number for number in numbers if isinstance(number, int) and number > 0), None)
        group = getattr(module, "num_key_value_groups", 1)
        n_heads = query_heads or getattr(getattr(module, "config", None), "num_attention_heads", None)
        if isinstance(group, int) and group > 1 and isinstance(n_heads, int) and n_heads % group == 0:
            return cls(query_heads, key_heads=n_heads // group, group=group)
        return cls(query_heads)


class RunningModules:
    """A stack of the modules of a model that are running, the innermost last, each with its path in the model.

    All properties are those of the innermost module; if no module is running, the path and the class name are "".
    """

    def __init__(self) -> None:
        self.stack: list[tuple[str, nn.Module | None]] = [("", None)]

    @property
    def path(self) -> str:
        """The path of the module, such as "blocks.3.attn"; "" for the model itself."""
        return self.stack[-1][0]

    @property
    def class_name(self) -> str:
        module = self.stack[-1][1]
        return "" if module is None else type(module).__name__

    @property
    def head_counts(self) -> HeadCounts:
        return HeadCounts.of(self.stack[-1][1])


@contextmanager
def running_modules(
    model: nn.Module,
    on_enter: Callable[[int, Mapping[str, Any]], None],
    on_leave: Callable[[nn.Module, bool], None] | None = None,
) -> Iterator[RunningModules]:
    """Keep track of the modules of a model that are running in this thread, inside a `with` block.

    `on_enter` is called when a module starts, with the number of modules that are then running and the keyword
    arguments of the module; `on_leave` when a module ends, with the module and whether it returned an output (False if
    it raised an error).
    """
    running, thread = RunningModules(), get_ident()

    def enter(path: str, module: nn.Module, args: Any, kwargs: Mapping[str, Any]) -> None:
        if get_ident() == thread:  # another thread may run the same model
            running.stack.append((path, module))
            n_running = len(running.stack) - 1  # the first entry is no module
            on_enter(n_running, kwargs)

    def leave(module: nn.Module, args: Any, output: Any) -> None:
        if get_ident() == thread:
            if on_leave is not None:
                on_leave(module, output is not None)  # `always_call` gives None for the output after an error
            running.stack.pop()

    with ExitStack() as hooks:
        for path, module in model.named_modules():
            hooks.callback(module.register_forward_pre_hook(partial(enter, path), with_kwargs=True).remove)
            hooks.callback(module.register_forward_hook(leave, always_call=True).remove)
        yield running


def layer_of(path: str) -> int | None:
    """Return the layer number of a module: the first number in its path; None if the path has no number.

    >>> layer_of("encoder.layer.11.attention.self"), layer_of("pool")
    (11, None)
    """
    return next((int(name) for name in path.split(".") if name.isdecimal()), None)
