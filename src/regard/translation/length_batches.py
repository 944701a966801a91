"""Batches of sequences of similar length, within a budget of tokens."""

from collections.abc import Iterator, Sequence

BATCH_TOKENS = 2048
"""The default number of source tokens of a batch, padding counted."""


def length_batches(lengths: Sequence[int], batch_tokens: int) -> Iterator[list[int]]:
    """Yield the indices of sequences in batches, longest sequences first.

    A batch, padded to its longest sequence, has at most `batch_tokens` tokens, or one sequence.

    >>> list(length_batches([2, 5, 3, 2], batch_tokens=6))
    [[1], [2, 0], [3]]
    """
    order, start = sorted(range(len(lengths)), key=lambda index: -lengths[index]), 0
    while start < len(order):
        n = max(batch_tokens // lengths[order[start]], 1)
        yield order[start : start + n]
        start += n
