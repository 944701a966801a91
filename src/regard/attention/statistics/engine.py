"""The interface of an engine of statistics: `cpu/engine.py`, `gpu/engine.py` and `torch/engine.py` are engines."""

from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from regard.attention.ask import Ask, Summary
from regard.attention.call import Call
from regard.attention.progress import ProgressCallback


@runtime_checkable
class Engine(Protocol):
    """A way to compute the statistics of a call in one pass over its weights, and the context in the same pass."""

    def unsupported_reason(self, call: Call, *, contexts: bool = False) -> str | None:
        """Return why the engine cannot compute the statistics (and the contexts) of a call, or None if it can."""

    def read(
        self, call: Call, ask: Ask, *, contexts: bool, report: ProgressCallback | None = None
    ) -> tuple[Float[Tensor, "batch heads queries d_value"] | None, Summary]:
        """Return the context, if `contexts`, and the statistics of a call that the engine supports."""
