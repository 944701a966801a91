"""Forced decoding: the model reads each source together with its finished translation in one forward pass."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.precision import widest_type
from regard.text.vocabulary import BOS, EOS
from regard.translation.alignment import Alignment
from regard.translation.alignment_rule import AlignmentRule
from regard.translation.length_batches import length_batches
from regard.translation.model_protocol import TranslatingModel, evaluation_mode
from regard.translation.pieces import words_and_pieces
from regard.translation.search.interface import pad_sequences
from regard.translation.search.next_token import log_softmax
from regard.translation.translation import Translation

Output = TypeVar("Output")

Model = Callable[[Tensor, Tensor, Tensor], Output]
"""The type of a model, or of a method of it, with the arguments source ids, source lengths and target ids."""


def forced_decoding(model: Model[Output], translations: Sequence[Translation], device: torch.device) -> Output:
    """Run the model once on the sources and targets of several translations, as one padded batch."""
    source, lengths = pad_sequences([translation.source_ids for translation in translations])
    target, _ = pad_sequences([(BOS, *translation.target_ids) for translation in translations])
    return model(source.to(device), lengths.to(device), target.to(device))


def token_log_probabilities(
    model: TranslatingModel, translations: Sequence[Translation], device: torch.device, batch_tokens: int
) -> list[Float[Tensor, " target_tokens"]]:
    """Return, for each translation, log P(token | source, tokens before) of each target token, EOS last, in nats.

    The results are on the CPU, as float64, which makes sums over a text precise; as float32 if `device` has no float64.
    """
    log_probabilities = [torch.empty(0)] * len(translations)
    with evaluation_mode(model), torch.no_grad():
        for indices, decoding in decoded_batches(model, translations, device, batch_tokens):
            of_vocabulary = log_softmax(decoding.logits).to(widest_type(decoding.logits.device))
            for index, padded in zip(indices, of_vocabulary, strict=True):  # padded: [target vocabulary]
                ids = torch.tensor([*translations[index].target_ids, EOS], device=padded.device)
                of_target_tokens = padded[: len(ids)].gather(1, ids[:, None])
                log_probabilities[index] = of_target_tokens[:, 0].cpu()
    return log_probabilities


def piece_weights(
    model: TranslatingModel,
    translations: Sequence[Translation],
    rule: AlignmentRule,
    device: torch.device,
    batch_tokens: int,
) -> list[Float[Tensor, "target_pieces source_pieces"]]:
    """Return, for each translation, the weights of its target pieces on its source pieces, chosen by `rule`."""
    weights = [torch.empty(0, 0)] * len(translations)
    # Logits take about half of the time of a small model with many pieces: use the method `cross_patterns`, which does
    # not compute them, if the model has it
    cross_patterns = getattr(model, "cross_patterns", None) or (lambda *given: model(*given).cross)
    with evaluation_mode(model), torch.no_grad():
        for indices, cross in decoded_batches(cross_patterns, translations, device, batch_tokens):
            n_targets = [len(translations[index].target_ids) + 1 for index in indices]  # EOS counted
            padded_weights = rule.weights(cross, n_targets).cpu()
            for index, n_target, padded in zip(indices, n_targets, padded_weights, strict=True):
                weights[index] = padded[:n_target, : len(translations[index].source_ids)]
    return weights


def decoded_batches(
    model: Model[Output], translations: Sequence[Translation], device: torch.device, batch_tokens: int
) -> Iterator[tuple[list[int], Output]]:
    """Divide translations into batches of similar length; yield their indices and the model's output by batch."""
    lengths = [max(len(translation.source_ids), len(translation.target_ids) + 1) for translation in translations]
    for indices in length_batches(lengths, batch_tokens):
        yield indices, forced_decoding(model, [translations[index] for index in indices], device)


def word_alignment(
    translation: Translation, weights: Float[Tensor, "target_pieces source_pieces"], end_piece: str = ""
) -> Alignment:
    """Make a word alignment from weights between subword pieces.

    `end_piece` is the label of EOS among the target pieces; "" if the pieces are not shown.
    """
    # words_and_pieces expects pieces without EOS: source_pieces ends with EOS, target_pieces does not
    source_words, source_word_of = words_and_pieces(
        translation.source, translation.source_pieces[:-1], is_complete=translation.left_out == 0
    )
    target_words, target_word_of = words_and_pieces(
        translation.text, translation.target_pieces, is_complete=not translation.cut
    )
    return Alignment(
        source_words=source_words,
        target_words=target_words,
        source_pieces=translation.source_pieces,
        target_pieces=(*translation.target_pieces, end_piece),
        piece_weights=weights,
        source_word_of=source_word_of,
        target_word_of=target_word_of,
    )
