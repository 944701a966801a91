"""The interface of the engines that compute statistics: the modules `cpu.engine`, `gpu.engine` and `torch.engine`."""

from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from regard.attention.ask import Ask, Summary
from regard.attention.call import Call
from regard.attention.progress import ProgressCallback


@runtime_checkable
class Engine(Protocol):
    """A module or object that computes the statistics of a call, and its context, in one pass over the weights."""

    def unsupported_reason(self, call: Call, *, contexts: bool = False) -> str | None:
        """Return why the engine cannot compute the statistics of a call, or None if it can.

        Args:
            contexts: whether it must compute the context too.
        """

    def read(
        self, call: Call, ask: Ask, *, contexts: bool, report: ProgressCallback | None = None
    ) -> tuple[Float[Tensor, "batch heads queries d_value"] | None, Summary]:
        """Return the context of a supported call (None unless `contexts`), and the statistics that `ask` names."""
