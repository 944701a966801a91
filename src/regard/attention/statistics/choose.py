"""Which engine goes through a pattern: the compiled one on a CPU, Triton's kernels on a GPU.

An engine is a module with two functions: `why_not` says why it cannot do a pattern, and `read` goes through it once.
"""

from types import ModuleType
from typing import TYPE_CHECKING

from regard.attention.gradients import are_plain, need_gradients
from regard.attention.statistics.cpu import engine as cpu
from regard.attention.statistics.gpu import engine as gpu

if TYPE_CHECKING:
    from regard.attention.pattern import Pattern


def engine_for(pattern: "Pattern") -> ModuleType | None:
    """The engine that can do a pattern; None where it is gathered with torch's operations."""
    if not are_plain(pattern.tensors()):
        return None
    return next((engine for engine in (cpu, gpu) if engine.why_not(pattern) is None), None)


def engine_with_context(pattern: "Pattern", dropout: float) -> ModuleType | None:
    """The engine that has the context too; None with dropout or gradients, and where values are past all measure."""
    if dropout > 0 or need_gradients(pattern.tensors()):
        return None
    engine = engine_for(pattern)
    return None if engine is cpu and not cpu.sums_fit(pattern) else engine
