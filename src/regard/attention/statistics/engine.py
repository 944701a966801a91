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

    def unsupported_reason(self, call: Call) -> str | None:
        """Return why this engine cannot compute the context and statistics of a call, or None if it can."""

    def read(
        self, call: Call, ask: Ask, *, contexts: bool, report: ProgressCallback | None = None
    ) -> tuple[Float[Tensor, "batch heads queries d_value"] | None, Summary, bool]:
        """Return a call's context, the statistics that `ask` requests, and whether the context is doubtful.

        A doubtful context may be wrong because of NaN or overflow, so that `finite.may_be_wrong` must check it. This
        engine must support the call: `unsupported_reason` must return None.

        Args:
            contexts: whether to compute the context; if False, None is returned in its place.
            report: called with the amount of work done and the total amount; None = progress is not reported.
        """
