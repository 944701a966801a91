"""The choice of the alignment rule that fits a model best.

An alignment rule says which layer, head and decoder step has the attention weights that align words. No rule is the
best for every model. `choose_rule` tries all rules on sentence pairs; no human alignment is needed. A good rule finds
the source word that the model needs to predict a target piece:

    need(piece, word)   = log P(piece | source) - log P(piece | source without the word)
    needed word         = the source word that the target piece needs most: need(piece, word) is largest
    agreement of a rule = the share of target pieces that the rule aligns with their needed word

Target pieces that need no source word are not counted: the target pieces before them suffice to predict them.

If even the best rule has an agreement below 0.5 (`LEAST_AGREEMENT`), words are aligned by the needs themselves:

    weight(piece, word) = need(piece, word) / the sum of the needs of the piece        needs below 0 count as 0

Source: Li, Monroe & Jurafsky 2016, section 3, for the idea of erasing a word to measure how much it matters.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.pattern import Pattern
from regard.text.vocabulary import EOS
from regard.translation.alignment import representative_pieces
from regard.translation.alignment_rule import AlignmentRule
from regard.translation.forced_decoding import decoded_batches, token_log_probabilities, word_alignment
from regard.translation.length_batches import BATCH_TOKENS
from regard.translation.model_protocol import TranslatingModel, evaluation_mode
from regard.translation.translation import Translation

MOST_PAIRS, MOST_WORDS = 100, 24
"""The most sentence pairs used by `choose_rule`, and the most source words in one of them.

The model reads a pair once for each of its source words: 100 pairs of 10 words are 1,000 forced decodings.
"""

CLEAR_NEED = 1.0
"""To measure rules: a piece needs a source word if its log-probability is at least this many nats lower without it."""

LEAST_NEED = 0.5
"""To align by erasure: a piece is aligned only if its log-probability is this many nats lower without some word."""


def choose_rule(model: TranslatingModel, translations: Sequence[Translation], device: torch.device) -> AlignmentRule:
    """Return the alignment rule that agrees most often with the effect of leaving out source words.

    In a tie, a mean over heads comes before a single head. If even this rule agrees for a smaller share of the pieces
    than `LEAST_AGREEMENT`, the result aligns words by leaving out source words (by="erasure").

    Args:
        translations: sentence pairs; the first `MOST_PAIRS` with 2 to `MOST_WORDS` words in the source are used.
    """
    # `max` returns the first of equal rules, and `all_rules` begins with the means
    best = max(measured_rules(model, translations, device), key=lambda rule: rule.agreement or 0.0)
    return best if best.reliable else replace(best, by="erasure")


def measured_rules(
    model: TranslatingModel, translations: Sequence[Translation], device: torch.device
) -> list[AlignmentRule]:
    """Return all alignment rules with their `agreement`: how often a rule finds the source word that a piece needs.

    If no target piece needs a source word (see `CLEAR_NEED`), only the default rule is returned, without agreement.
    """
    suitable = [pair for pair in translations if 1 < len(pair.source.split()) <= MOST_WORDS and pair.target_ids]
    pairs = suitable[:MOST_PAIRS]
    needed = [needed_words(needs) for needs in piece_needs(model, pairs, device)]
    n_pieces = sum(map(len, needed))
    if not n_pieces:
        return [AlignmentRule()]
    n_agreeing = Counter[AlignmentRule]()
    with evaluation_mode(model), torch.no_grad():
        for indices, decoding in decoded_batches(model, pairs, device, BATCH_TOKENS):
            for rule in all_rules(decoding.cross):
                for index, padded_weights in zip(indices, rule.weights(decoding.cross).cpu(), strict=True):
                    pair = pairs[index]
                    n_target = len(pair.target_ids) + 1  # target_ids are without EOS, source_ids end with EOS
                    weights = padded_weights[:n_target, : len(pair.source_ids)]
                    aligned_word = word_alignment(pair, weights).source_word_of_target_piece
                    n_agreeing[rule] += sum(aligned_word.get(piece) == word for piece, word in needed[index].items())
    return [replace(rule, agreement=n / n_pieces) for rule, n in n_agreeing.items()]


def all_rules(cross: tuple[Pattern, ...]) -> Iterator[AlignmentRule]:
    """Yield every rule by attention: each names the weights that align a target piece with source pieces.

    They are those of one layer, of one head or the mean over heads, and of one of two decoder steps: the step that
    predicts the piece, or the next step, which reads the piece. The last layer but one, the default, comes first. Rules
    with the mean over heads come before rules with one head. `cross` has the cross-attention of each layer.
    """
    default = max(len(cross) - 2, 0)
    steps: tuple[Literal["predicts", "reads"], ...] = ("predicts", "reads")
    layers = [default, *(layer for layer in range(len(cross)) if layer != default)]
    yield from (AlignmentRule(layer=layer, step=step) for layer in layers for step in steps)
    for layer in layers:
        if cross[layer].n_heads > 1:
            heads = range(cross[layer].n_heads)
            yield from (AlignmentRule(layer=layer, head=head, step=step) for head in heads for step in steps)


def piece_needs(
    model: TranslatingModel, translations: Sequence[Translation], device: torch.device
) -> list[Float[Tensor, "target_pieces source_words"]]:
    """Return, for each translation, how many nats of log-probability a target piece loses without a source word."""
    with_all_words = token_log_probabilities(model, translations, device, BATCH_TOKENS)
    no_weights = torch.empty(0, 0)  # these alignments only tell the word of each piece
    alignments = [word_alignment(translation, no_weights) for translation in translations]
    erasures, shortened = [], []
    for index, (translation, alignment) in enumerate(zip(translations, alignments, strict=True)):
        for word in range(len(alignment.source_words)):
            pieces = zip(translation.source_ids[:-1], alignment.source_word_of, strict=True)
            source_ids = (*(token for token, word_of_token in pieces if word_of_token != word), EOS)
            erasures.append((index, word))
            shortened.append(replace(translation, source_ids=source_ids))
    needs = [torch.zeros(len(alignment.target_word_of), len(alignment.source_words)) for alignment in alignments]
    log_probabilities = token_log_probabilities(model, shortened, device, BATCH_TOKENS)
    for (index, word), without_word in zip(erasures, log_probabilities, strict=True):
        losses = with_all_words[index] - without_word
        needs[index][:, word] = losses[: len(needs[index])].float()  # without the loss of EOS
    return needs


def erasure_weights(
    model: TranslatingModel, translations: Sequence[Translation], device: torch.device
) -> list[Float[Tensor, "target_pieces source_pieces"]]:
    """Return, for each translation, weights of target pieces on source pieces, by leaving out each source word in turn.

    The weight on a source word is proportional to the log-probability that the target piece loses without the word. The
    pieces that represent the word in an alignment share its weight equally. The weights of EOS are 0.
    """
    weights = list[Tensor]()
    for translation, needs in zip(translations, piece_needs(model, translations, device), strict=True):
        piece_weights = torch.zeros(len(translation.target_ids) + 1, len(translation.source_ids))
        if needs.numel():
            word_of = word_alignment(translation, piece_weights).source_word_of
            pieces = representative_pieces(translation.source_pieces, word_of)
            words = torch.tensor([word_of[piece] for piece in pieces])
            is_aligned = needs.amax(dim=1, keepdim=True) >= LEAST_NEED
            needs = needs.clamp(min=0) * is_aligned
            # `clamp` only avoids 0 / 0 in the rows of pieces that are not aligned: an aligned piece has a larger sum
            word_weights = needs / needs.sum(dim=1, keepdim=True).clamp(min=LEAST_NEED)
            n_pieces = torch.bincount(words, minlength=word_weights.shape[1])
            # each piece gets the weight of its word, divided by the number of the word's pieces
            piece_weights[:-1, pieces] = (word_weights / n_pieces)[:, words]
        weights.append(piece_weights)
    return weights


def needed_words(needs: Float[Tensor, "target_pieces source_words"]) -> dict[int, int]:
    """Return {target piece: source word whose absence lowers the piece's log-probability most}, as indices.

    A piece is left out if it loses less than `CLEAR_NEED` nats, whichever word is absent.

    >>> needed_words(torch.tensor([[0.1, 3.0], [0.2, 0.1]]))
    {0: 1}
    """
    return {piece: int(row.argmax()) for piece, row in enumerate(needs) if row.numel() and row.max() >= CLEAR_NEED}
