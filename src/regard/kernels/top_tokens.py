"""The most probable next tokens of a few rows of logits, as one call of a C kernel on the CPU."""

import ctypes
from collections.abc import Sequence
from math import ceil

import torch
from jaxtyping import Float
from torch import Tensor

from regard.kernels.library import c_function, check_arguments
from regard.kernels.structs import fields_of
from regard.kernels.threads import run_on_threads

LOGITS_OF_A_THREAD = 2**16
"""One thread is used for each 2^16 logits; for fewer, waking a thread takes longer than it saves."""


class TopTokensArguments(ctypes.Structure):
    """The C struct `TopTokensArguments` of top_tokens.c."""

    _fields_ = fields_of("top_tokens.c", "TopTokensArguments")


def kernel_reads(logits: Tensor) -> bool:
    """Return whether the kernel was built and supports these logits."""
    supported = logits.is_cpu and logits.dtype == torch.float32 and logits.is_contiguous()
    return supported and c_function("regard_top_tokens") is not None


def top_tokens(
    logits: Float[Tensor, "rows vocabulary"], n: int, forbidden: Sequence[int]
) -> tuple[list[list[float]], list[list[int]]]:
    """Return the log-probabilities and the ids of the n most probable tokens of each row, the most probable first.

    If only k < n tokens are allowed, the last n - k log-probabilities of a row are -inf. If a logit is NaN, all
    log-probabilities of its row are NaN.

    Args:
        logits: logits for which `kernel_reads` returns True.
        forbidden: the ids of tokens that are never chosen.
    """
    rows, vocabulary = logits.shape
    # arrays that the C function fills
    log_probabilities, tokens = (ctypes.c_float * (rows * n))(), (ctypes.c_int64 * (rows * n))()
    excluded = (ctypes.c_int64 * len(forbidden))(*forbidden)
    arguments = TopTokensArguments(
        logits.data_ptr(),
        rows,
        vocabulary,
        ctypes.addressof(excluded),
        len(forbidden),
        n,
        ctypes.addressof(log_probabilities),
        ctypes.addressof(tokens),
    )
    check_arguments("regard_top_tokens", arguments)
    threads = min(torch.get_num_threads(), rows, ceil(rows * vocabulary / LOGITS_OF_A_THREAD))
    run_on_threads(c_function("regard_top_tokens"), arguments, threads)
    starts = range(0, rows * n, n)
    return [log_probabilities[start : start + n] for start in starts], [tokens[start : start + n] for start in starts]
