"""Forced decoding: the model reads each source together with its finished translation in one forward pass.

The logits give the log-probability of the translation. The attention weights give its word alignment.
"""

from collections.abc import Callable, Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.pattern import Pattern
from regard.attention.precision import widest_type
from regard.text.vocabulary import BOS, EOS
from regard.translation.alignment import Alignment
from regard.translation.evaluation_mode import evaluation_mode
from regard.translation.length_batches import length_batches
from regard.translation.model_protocol import ForcedDecoding, TranslatingModel
from regard.translation.pieces import words_and_pieces
from regard.translation.search.interface import pad_sequences
from regard.translation.search.next_token import log_softmax
from regard.translation.translation import Translation


def forced_decoding(
    model: TranslatingModel, translations: Sequence[Translation], device: torch.device
) -> ForcedDecoding:
    """Run the model once on the sources and targets of several translations, as one padded batch; return its output."""
    source, lengths = pad_sequences([translation.source_ids for translation in translations])
    target, _ = pad_sequences([(BOS, *translation.target_ids) for translation in translations])
    return model(source.to(device), lengths.to(device), target.to(device))


def token_log_probabilities(
    model: TranslatingModel, translations: Sequence[Translation], device: torch.device, batch_tokens: int
) -> list[Float[Tensor, " target_tokens"]]:
    """Return, for each translation, log P(token | source, tokens before) of each target token, EOS last, in nats.

    The log-probabilities are computed in float32, or in float64 if the logits are float64. They are returned on the CPU
    as float64; as float32 if `device` has no float64.
    """
    found = [torch.empty(0)] * len(translations)
    with evaluation_mode(model), torch.no_grad():
        for indices, decoding in decoded_batches(model, translations, device, batch_tokens):
            # As float64 (if the device has it), so that callers add up the log-probabilities of a text in float64
            log_probability = log_softmax(decoding.logits).to(widest_type(decoding.logits.device))
            for index, rows in zip(indices, log_probability, strict=True):
                ids = torch.tensor([*translations[index].target_ids, EOS], device=rows.device)
                found[index] = rows[: len(ids)].gather(1, ids[:, None])[:, 0].cpu()
    return found


def piece_weights(
    model: TranslatingModel,
    translations: Sequence[Translation],
    weights_of: Callable[[tuple[Pattern, ...], Sequence[int]], Float[Tensor, "batch target source"]],
    device: torch.device,
    batch_tokens: int,
) -> list[Float[Tensor, "target_pieces source_pieces"]]:
    """Return, for each translation, the attention weights of its target pieces on its source pieces, EOS last in both.

    The matrices are on the CPU.

    Args:
        weights_of: returns the weights for a batch, as `AlignmentRule.weights` does, from the cross-attention patterns
            of all decoder layers and the number of target pieces of each sentence, EOS included.
        batch_tokens: the largest number of source tokens, and of target tokens, in a batch, padding counted.
    """
    weights = [torch.empty(0, 0)] * len(translations)
    with evaluation_mode(model), torch.no_grad():
        for indices, decoding in decoded_batches(model, translations, device, batch_tokens):
            lengths = [len(translations[index].target_ids) + 1 for index in indices]
            for index, rows in zip(indices, weights_of(decoding.cross, lengths).cpu(), strict=True):
                translation = translations[index]
                weights[index] = rows[: len(translation.target_ids) + 1, : len(translation.source_ids)]
    return weights


def decoded_batches(
    model: TranslatingModel, translations: Sequence[Translation], device: torch.device, batch_tokens: int
) -> Iterator[tuple[list[int], ForcedDecoding]]:
    """Run the model on batches of translations of similar length.

    Yields, for each batch, the indices of its translations and the model's output for them.
    """
    lengths = [max(len(translation.source_ids), len(translation.target_ids) + 1) for translation in translations]
    for indices in length_batches(lengths, batch_tokens):
        yield indices, forced_decoding(model, [translations[index] for index in indices], device)


def word_alignment(
    translation: Translation, weights: Float[Tensor, "target_pieces source_pieces"], end_piece: str
) -> Alignment:
    """Return the word alignment of a translation, made from attention weights between subword pieces.

    Args:
        end_piece: the piece for EOS in the target vocabulary, such as "</s>".
    """
    # source_pieces ends with EOS, target_pieces does not; a truncated source may end inside a word
    source_words, source_word_of = words_and_pieces(
        translation.source, translation.source_pieces[:-1], is_complete=not translation.left_out
    )
    target_words, target_word_of = words_and_pieces(translation.text, translation.target_pieces)
    return Alignment(
        source_words=source_words,
        target_words=target_words,
        source_pieces=translation.source_pieces,
        target_pieces=(*translation.target_pieces, end_piece),
        piece_weights=weights,
        source_word_of=source_word_of,
        target_word_of=target_word_of,
    )
