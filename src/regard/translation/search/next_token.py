"""Log-probabilities of the next token of each hypothesis, without the tokens that every search forbids.

PAD and BOS are never chosen, and after the largest number of tokens only EOS can be chosen. The log-probabilities of
allowed tokens are the model's own: they are not normalised again after other tokens have been forbidden.
"""

from collections.abc import Iterable, Sequence
from math import isnan

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.precision import widest_type
from regard.errors import InputError
from regard.text.vocabulary import BOS, EOS, PAD
from regard.translation.model_protocol import DecoderStep, TranslatingModel
from regard.translation.search.interface import SourceBatch

CHUNK = 64
"""The number of columns in each chunk into which `topk` divides a row."""

PAD_AND_BOS = slice(PAD, BOS + 1, BOS - PAD)
"""The columns of PAD and BOS in a table with a column for each token; a slice is faster than a list of two indices."""

FEW_NUMBERS = 2**15
"""For a tensor with fewer numbers than this, `torch.topk` is faster than chunks, and `topk` calls it."""


def read_prefixes(model: TranslatingModel, sources: SourceBatch) -> tuple[DecoderStep, Float[Tensor, " batch"]]:
    """Let the model read the sources, then BOS and the prefixes: the given beginnings of the translations.

    Returns:
        The output of the model's step for BOS and the prefixes, and the log-probability of each prefix.
    """
    first = torch.full_like(sources.lengths, BOS)[:, None]
    step = model.step(torch.cat([first, sources.prefix], dim=1), model.start(sources.source, sources.lengths))
    if not sources.prefix.shape[1]:
        return step, torch.zeros(len(sources.lengths), dtype=widest_type(first.device), device=first.device)
    forced = log_softmax(step.logits[:, :-1]).gather(2, sources.prefix[..., None])
    return step, forced[..., 0].to(widest_type(forced.device)).sum(dim=1)


def top_tokens(
    logits: Float[Tensor, "rows new vocabulary"], n: int, length: int, limits: Sequence[int]
) -> tuple[Float[Tensor, "rows n"], Int[Tensor, "rows n"]]:
    """Return the log-probabilities and the ids of the n most probable next tokens of each hypothesis, best first.

    If only k < n tokens are allowed, the last n - k entries of a row are forbidden tokens with log-probability -inf.

    Args:
        logits: the logits of the model's last step, a row for each hypothesis; only those of the last token are used.
        length: the number of tokens that each hypothesis already has.
        limits: the largest number of tokens of each translation, EOS not counted. The hypotheses of a sentence are in
            adjacent rows, equally many for each sentence.
    """
    return topk(token_log_probabilities(logits, length, limits), n)


def token_log_probabilities(
    logits: Float[Tensor, "rows new vocabulary"], length: int, limits: Sequence[int]
) -> Float[Tensor, "rows vocabulary"]:
    """Return the log-probability of every token as the next token of each hypothesis.

    PAD and BOS have -inf. If `length`, the number of tokens that each hypothesis already has, is the limit of its
    translation in `limits`, all other tokens except EOS have -inf too.
    """
    log_probability = log_softmax(logits[:, -1])
    log_probability[:, PAD_AND_BOS] = -torch.inf
    if length >= min(limits):
        must_end = torch.tensor([length >= limit for limit in limits], device=logits.device)
        must_end = must_end.repeat_interleave(len(log_probability) // len(limits))
        not_eos = torch.arange(log_probability.shape[1], device=logits.device) != EOS
        log_probability.masked_fill_(must_end[:, None] & not_eos, -torch.inf)
    return log_probability


def topk(numbers: Float[Tensor, "rows columns"], n: int) -> tuple[Float[Tensor, "rows n"], Int[Tensor, "rows n"]]:
    """Return the n largest numbers of each row and their column indices, the largest first, as `torch.topk` does.

    A row is divided into chunks; its n largest numbers are in the n chunks with the largest maxima. On a CPU it is
    faster to find these chunks first than to call `torch.topk` on many rows of a whole vocabulary.
    """
    n_chunks, n_columns = numbers.shape[1] // CHUNK, numbers.shape[1]
    if n_chunks < 4 * n or numbers.numel() < FEW_NUMBERS or not numbers.is_cpu:
        found = numbers.topk(n, dim=1)
        return found.values, found.indices
    maxima = numbers[:, : n_chunks * CHUNK].view(len(numbers), n_chunks, CHUNK).amax(dim=2)
    columns = (maxima.topk(n, dim=1).indices[:, :, None] * CHUNK + torch.arange(CHUNK)).flatten(1)
    rest = torch.arange(n_chunks * CHUNK, n_columns).expand(len(numbers), -1)
    columns = torch.cat([columns, rest], dim=1)
    found = numbers.gather(1, columns).topk(n, dim=1)
    return found.values, columns.gather(1, found.indices)


def log_softmax(logits: Float[Tensor, "*batch vocabulary"]) -> Float[Tensor, "*batch vocabulary"]:
    return logits.log_softmax(dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))


def refuse_nan(log_probabilities: Iterable[float]) -> None:
    """Raise InputError if a log-probability is NaN.

    Args:
        log_probabilities: for each row of logits, the log-probability of one token other than PAD and BOS. One is
            enough, because log-softmax turns a NaN among the logits of a row into NaN for all tokens.
    """
    if any(map(isnan, log_probabilities)):
        raise InputError(
            "the model gives NaN for the next token; its parameters are damaged, or too small a number type overflows: "
            "load it in float32."
        )
