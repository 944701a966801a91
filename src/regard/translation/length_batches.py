"""Division of sequences into batches of similar length, with at most a given number of tokens."""

from collections.abc import Iterator, Sequence

BATCH_TOKENS = 2048
"""The default of the largest number of tokens in a batch, padding counted."""


def length_batches(lengths: Sequence[int], batch_tokens: int) -> Iterator[list[int]]:
    """Divide sequences into batches; yield the indices of the sequences in each batch, longest sequences first.

    A sequence that is longer than `batch_tokens` is a batch of its own.

    >>> list(length_batches([2, 5, 3, 2], batch_tokens=6))
    [[1], [2, 0], [3]]
    """
    indices = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    start = 0
    while start < len(indices):
        n_rows = max(batch_tokens // lengths[indices[start]], 1)
        yield indices[start : start + n_rows]
        start += n_rows
