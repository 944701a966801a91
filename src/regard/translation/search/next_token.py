"""Log-probabilities of the next token of each hypothesis, without the tokens that every search forbids.

PAD and BOS are never chosen, and after the largest number of tokens only EOS can be chosen. The log-probabilities of
allowed tokens are the model's own: they are not normalised again after other tokens have been forbidden.
"""

from collections.abc import Iterable, Sequence
from math import isnan

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import InputError
from regard.kernels import top_tokens as kernel
from regard.text.vocabulary import BOS, EOS, PAD

NEVER_CHOSEN = PAD, BOS


def top_tokens(
    logits: Float[Tensor, "rows vocabulary"], n: int, length: int, limits: Sequence[int]
) -> tuple[list[list[float]], list[list[int]]]:
    """Return the log-probabilities and the ids of the n most probable next tokens of each hypothesis, best first.

    If only k < n tokens are allowed, the last n - k log-probabilities of a row are -inf.

    Args:
        length: the number of tokens that each hypothesis already has.
        limits: the largest number of tokens of each translation, EOS not counted. The hypotheses of a sentence are in
            adjacent rows, equally many for each sentence.
    """
    n = min(n, logits.shape[1])
    if length < min(limits) and kernel.kernel_reads(logits):
        return kernel.top_tokens(logits, n, NEVER_CHOSEN)
    top = token_log_probabilities(logits, length, limits).topk(n, dim=1)
    return top.values.tolist(), top.indices.tolist()


def token_log_probabilities(
    logits: Float[Tensor, "rows vocabulary"], length: int, limits: Sequence[int]
) -> Float[Tensor, "rows vocabulary"]:
    """Return the log-probability of every token as the next token; -inf = the token is forbidden.

    PAD and BOS are always forbidden. If a hypothesis has as many tokens as its limit, only EOS is allowed.
    """
    log_probability = log_softmax(logits)
    log_probability[:, NEVER_CHOSEN] = -torch.inf
    if length >= min(limits):
        must_end = torch.tensor([length >= limit for limit in limits], device=logits.device)
        rows_per_sentence = len(log_probability) // len(limits)
        must_end = must_end.repeat_interleave(rows_per_sentence)
        not_eos = torch.arange(log_probability.shape[1], device=logits.device) != EOS
        log_probability.masked_fill_(must_end[:, None] & not_eos, -torch.inf)
    return log_probability


def log_softmax(logits: Float[Tensor, "*batch vocabulary"]) -> Float[Tensor, "*batch vocabulary"]:
    return logits.log_softmax(dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))


def refuse_nan(log_probabilities: Iterable[float]) -> None:
    """Raise InputError if a log-probability is NaN.

    One log-probability of each row is enough: one NaN among the logits of a row makes all its log-probabilities NaN.
    """
    if any(map(isnan, log_probabilities)):
        raise InputError(
            "the model gives NaN for the next token; its parameters are damaged, or too small a number type overflows: "
            "load it in float32."
        )
