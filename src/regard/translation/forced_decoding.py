"""Forced decoding: the model reads sources together with finished target texts, in one pass.

The pass gives the log-probability of a text, the attention weights of its alignment, and its trace.
"""

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.attend import Attended, attend
from regard.attention.pattern import Pattern
from regard.attention.precision import widest_type
from regard.text.vocabulary import BOS, EOS
from regard.tracing.trace import Trace
from regard.translation.alignment import Alignment, cross_weights
from regard.translation.evaluation_mode import evaluation_mode
from regard.translation.length_batches import length_batches
from regard.translation.model_protocol import ForcedDecoding, TranslatingModel
from regard.translation.pieces import trace_tokens, words_and_pieces
from regard.translation.search.interface import pad_sequences
from regard.translation.search.next_token import log_softmax
from regard.translation.translation import Translation


def forced_decoding(
    model: TranslatingModel, translations: Sequence[Translation], device: torch.device
) -> ForcedDecoding:
    """Return the output of a model that reads each source with BOS and its finished translation, in one pass."""
    source, lengths = pad_sequences([one.source_ids for one in translations])
    target, _ = pad_sequences([(BOS, *one.target_ids) for one in translations])
    return model(source.to(device), lengths.to(device), target.to(device))


def log_probabilities(
    model: TranslatingModel, translations: Sequence[Translation], device: torch.device, batch_tokens: int
) -> list[float]:
    """Return log P(target, EOS | source) of each translation, in nats."""
    found = [0.0] * len(translations)
    with evaluation_mode(model), torch.no_grad():
        for indices, decoding in decoded_batches(model, translations, device, batch_tokens):
            log_probability = log_softmax(decoding.logits).to(widest_type(decoding.logits.device))
            for index, rows in zip(indices, log_probability, strict=True):
                ids = torch.tensor([*translations[index].target_ids, EOS], device=rows.device)
                found[index] = float(rows[: len(ids)].gather(1, ids[:, None]).sum())
    return found


def piece_weights(
    model: TranslatingModel,
    translations: Sequence[Translation],
    layer: int | None,
    device: torch.device,
    batch_tokens: int,
) -> list[Float[Tensor, "target_pieces source_pieces"]]:
    """Return the attention weights of each target piece of each translation over the source pieces, on the CPU.

    Args:
        layer: the decoder layer whose heads are averaged; None = the last but one.
    """
    found = [torch.empty(0, 0)] * len(translations)
    with evaluation_mode(model), torch.no_grad():
        for indices, decoding in decoded_batches(model, translations, device, batch_tokens):
            for index, rows in zip(indices, cross_weights(decoding.cross, layer).cpu(), strict=True):
                translation = translations[index]
                found[index] = rows[: len(translation.target_ids) + 1, : len(translation.source_ids)]
    return found


def decoded_batches(
    model: TranslatingModel, translations: Sequence[Translation], device: torch.device, batch_tokens: int
) -> Iterator[tuple[list[int], ForcedDecoding]]:
    """Read translations in batches of similar length; yield the indices of a batch and the model's output for it."""
    lengths = [max(len(one.source_ids), len(one.target_ids) + 1) for one in translations]
    for indices in length_batches(lengths, batch_tokens):
        yield indices, forced_decoding(model, [translations[index] for index in indices], device)


def word_alignment(
    translation: Translation, weights: Float[Tensor, "target_pieces source_pieces"], end_piece: str
) -> Alignment:
    """Return the alignment of a translation from its pieces' weights; `end_piece` is EOS in the target vocabulary."""
    source_words, source_word_of = words_and_pieces(
        translation.source, translation.source_pieces[:-1], whole=not translation.left_out
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


def trace_translation(
    model: TranslatingModel, translation: Translation, device: torch.device, *, name: str, begin_piece: str
) -> Trace:
    """Return the trace of a model that reads a translation; `begin_piece` is BOS in the target vocabulary."""
    with evaluation_mode(model), torch.no_grad():
        decoding = forced_decoding(model, [translation], device)
        kinds = {"encoder": decoding.encoder, "decoder": decoding.decoder, "cross": decoding.cross}
        attended = {
            kind: {layer: attend_again(pattern) for layer, pattern in enumerate(patterns)}
            for kind, patterns in kinds.items()
            if patterns
        }
    ids, pieces = (BOS, *translation.target_ids), (begin_piece, *translation.target_pieces)
    return Trace(
        model=name,
        text=translation.source,
        target_text=translation.text,
        source=trace_tokens(translation.source_pieces, translation.source_ids, {EOS}),
        target=trace_tokens(pieces, ids, {BOS}),
        attended=attended,
    )


def attend_again(pattern: Pattern) -> Attended:
    """Run the attention of a pattern once more, so that a trace can compare the kernel's context with the weights."""
    return attend(
        pattern.query,
        pattern.key,
        pattern.value,
        score=pattern.score,
        mask=pattern.mask,
        normalise=pattern.normalise,
    )
