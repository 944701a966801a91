"""The torch engine, which computes statistics by torch operations, for any normaliser, data type and device."""

from regard.attention.ask import Ask, Summary
from regard.attention.call import Call
from regard.attention.progress import ProgressCallback
from regard.attention.statistics.torch.block_statistics import gather_statistics
from regard.attention.weights import blocks_of


def unsupported_reason(call: Call, *, contexts: bool = False) -> str | None:
    """Return None if `contexts` is False: the engine computes the statistics of every call of `attend`.

    If `contexts` is True, return the reason why the call is not supported: the engine computes no context.
    """
    return "the torch engine computes no context" if contexts else None


def read(call: Call, ask: Ask, *, contexts: bool, report: ProgressCallback | None = None) -> tuple[None, Summary]:
    """Return None in place of the context, and the statistics that `ask` requests."""
    return None, gather_statistics(blocks_of(call, report), call.grid, call.empty(), ask)
