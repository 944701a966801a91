"""The interface of the modules `cpu.engine` and `gpu.engine`, which compute statistics and the context by kernels."""

from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from regard.attention.ask import Ask, Summary
from regard.attention.call import Call
from regard.attention.progress import ProgressCallback


@runtime_checkable
class Engine(Protocol):
    """The interface of a module that computes statistics of attention weights, and the context, by kernels."""

    def unsupported_reason(self, call: Call, *, contexts: bool = False) -> str | None:
        """Return why this engine cannot compute the statistics of a call of `attend`, or None if it can.

        Args:
            contexts: whether the engine must support computing the context too.
        """

    def read(
        self, call: Call, ask: Ask, *, contexts: bool, report: ProgressCallback | None = None
    ) -> tuple[Float[Tensor, "batch heads queries d_value"] | None, Summary]:
        """Return the context of a call of `attend`, and the statistics that `ask` requests.

        This engine must support the call: `unsupported_reason` must return None.

        Args:
            contexts: whether to compute the context; if False, None is returned in its place.
            report: called with the amount of work done and the total amount; None = progress is not reported.
        """
