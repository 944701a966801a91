"""The interface of the engines that compute statistics: the modules `cpu.engine`, `gpu.engine` and `torch.engine`."""

from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from regard.attention.ask import Ask, Summary
from regard.attention.call import Call
from regard.attention.progress import ProgressCallback


@runtime_checkable
class Engine(Protocol):
    """A module or object that computes the statistics and the context of a call in one pass over the weights."""

    def unsupported_reason(self, call: Call, *, contexts: bool = False) -> str | None:
        """Return why the engine cannot compute the statistics of a call of `attend`, or None if it can.

        Args:
            contexts: whether it must be able to compute the context too.
        """

    def read(
        self, call: Call, ask: Ask, *, contexts: bool, report: ProgressCallback | None = None
    ) -> tuple[Float[Tensor, "batch heads queries d_value"] | None, Summary]:
        """Return the context of a call of `attend`, and the statistics that `ask` names.

        The call must be supported (see `unsupported_reason`).

        Args:
            contexts: whether to compute the context; it is None otherwise.
            report: called with the amount of work done and the total; None = progress is not reported.
        """
