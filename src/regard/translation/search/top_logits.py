"""The likeliest tokens of each row and their log-probabilities.

    log p_i = x_i - log Σ_j exp x_j

A search wants some five of a vocabulary's ten thousand. Where a C compiler is at hand the others' log-probabilities are
never written down; elsewhere a topk and a log_softmax do it, which takes several times as long. `pytest benchmarks
--benchmark-only -k likeliest` compares the two.
"""

import ctypes
from functools import cache
from math import ceil
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.precision import widest_type
from regard.kernels.library import FLOATS, INTEGERS, KERNELS, compiled
from regard.kernels.threads import run_on_threads
from regard.text.vocabulary import BOS, PAD

SOURCE = KERNELS / "top_logits.c"
AT_ONCE = 4
"""Rows that a thread takes, as in top_logits.c."""

WORTH_THREADS = 2**15
"""Logits from which on it is worth while to wake other threads."""

MOST = 128
"""Tokens that are looked for by comparing each with those found; of more, torch's topk is the faster."""

NEVER = (PAD, BOS)
"""Tokens that no text goes on with."""


class Call(ctypes.Structure):
    """What `regard_likeliest` is given: the struct of the same name in top_logits.c, field by field."""

    _fields_ = (
        ("rows", ctypes.c_int64),
        ("vocabulary", ctypes.c_int64),
        ("row", ctypes.c_int64),
        ("n", ctypes.c_int64),
        ("never", ctypes.c_int64 * len(NEVER)),
        ("logits", FLOATS),
        ("log_probabilities", FLOATS),
        ("tokens", INTEGERS),
        ("next", ctypes.c_int64),
    )


def likeliest(
    logits: Float[Tensor, "rows vocabulary"], n: int
) -> tuple[Float[Tensor, "rows n"], Int[Tensor, "rows n"]]:
    """The n likeliest tokens of each row, likeliest first, without those that no text goes on with.

    Returns:
        Log-probabilities in the widest type of the device, -inf where there are no more tokens; and the tokens.
    """
    if n > MOST or why_not(logits) is not None:
        tokens = without_never(logits.clone()).topk(n, dim=1).indices
        return expected(logits).gather(1, tokens).to(widest_type(logits.device)), tokens
    n_rows, vocabulary = logits.shape
    threads = min(torch.get_num_threads(), ceil(n_rows / AT_ONCE)) if logits.numel() >= WORTH_THREADS else 1
    log_probability = logits.new_empty(n_rows, n, dtype=torch.float64)
    tokens = logits.new_empty(n_rows, n, dtype=torch.long)
    call = Call(
        rows=n_rows,
        vocabulary=vocabulary,
        row=logits.stride(0),
        n=n,
        never=NEVER,
        logits=logits.data_ptr(),
        log_probabilities=log_probability.data_ptr(),
        tokens=tokens.data_ptr(),
    )
    run_on_threads(regard_likeliest(), call, threads)
    return log_probability, tokens


def expected(logits: Float[Tensor, "*batch vocabulary"]) -> Float[Tensor, "*batch vocabulary"]:
    """Log-probabilities in float32 or better, -inf in place of those of tokens that no text goes on with."""
    return without_never(log_softmax(logits))


def without_never(scores: Float[Tensor, "*batch vocabulary"]) -> Float[Tensor, "*batch vocabulary"]:
    """The same scores, of which those of tokens that no text goes on with have become -inf."""
    scores[..., NEVER] = -torch.inf
    return scores


def log_softmax(logits: Float[Tensor, "*batch vocabulary"]) -> Float[Tensor, "*batch vocabulary"]:
    """Log-probabilities, in float32 or better."""
    return logits.log_softmax(dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))


def why_not(logits: Float[Tensor, "rows vocabulary"]) -> str | None:
    """Why the compiled function cannot read logits; None if it can."""
    if logits.device.type != "cpu":
        return "it runs on a CPU"
    if logits.dtype != torch.float32:
        return "it reads float32"
    if logits.stride(1) != 1:
        return "a row's logits lie side by side"
    if regard_likeliest() is None:
        return "no C compiler was found"
    return None


@cache
def regard_likeliest() -> Any | None:
    """The compiled function, which takes a `Call` by reference; None where it cannot be had."""
    return compiled(SOURCE, "regard_likeliest", ctypes.c_void_p)
