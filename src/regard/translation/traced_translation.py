"""The trace of a translation: the attention of all layers and heads while the model reads source and translation."""

from collections.abc import Mapping

import torch

from regard.attention.attend import Attended, attend
from regard.attention.pattern import Pattern
from regard.effects.movement import LayerStates
from regard.text.vocabulary import BOS, EOS
from regard.tracing.trace import Trace
from regard.tracing.watching.attention_kind import KindOfPath
from regard.tracing.watching.layer_states import StatesNotFoundError, recording_states
from regard.tracing.watching.watching import watching
from regard.transformer.model import Transformer
from regard.translation.forced_decoding import forced_decoding
from regard.translation.model_protocol import ForcedDecoding, TranslatingModel, evaluation_mode
from regard.translation.pieces import trace_tokens
from regard.translation.translation import Translation


def trace_translation(
    model: TranslatingModel,
    translation: Translation,
    device: torch.device,
    *,
    model_name: str,
    begin_piece: str,
    keep_hidden: bool,
) -> Trace:
    """Return the attention weights of all layers and heads as the model reads the source and the finished translation.

    Args:
        begin_piece: the piece for BOS in the target vocabulary, such as "<s>".
        keep_hidden: also record the vectors before, inside and after each layer; only for a Transformer.
    """
    with evaluation_mode(model), torch.no_grad():
        states = None
        if keep_hidden:
            decoding, states = decode_with_states(model, translation, device)
        else:
            decoding = forced_decoding(model, [translation], device)
        kinds = {"encoder": decoding.encoder, "decoder": decoding.decoder, "cross": decoding.cross}
        attended = {
            kind: {layer: attend_again(pattern) for layer, pattern in enumerate(patterns)}
            for kind, patterns in kinds.items()
            if patterns
        }
    target_ids = (BOS, *translation.target_ids)
    target_pieces = (begin_piece, *translation.target_pieces)
    return Trace(
        model=model_name,
        text=translation.source,
        target_text=translation.text,
        source=trace_tokens(translation.source_pieces, translation.source_ids, {EOS}),
        target=trace_tokens(target_pieces, target_ids, {BOS}),
        attended=attended,
        states=states,
    )


def decode_with_states(
    model: TranslatingModel, translation: Translation, device: torch.device
) -> tuple[ForcedDecoding, Mapping[str, Mapping[int, LayerStates]]]:
    """Run the model; return its output, and the layers' vectors as {kind of attention: {layer number: vectors}}."""
    if not isinstance(model, Transformer):
        raise StatesNotFoundError(
            f"the vectors of {type(model).__name__} cannot be kept, because it is no regard.Transformer; trace "
            "without keep=…."
        )
    # the recorder reads from `watched` which attention calls a layer has made
    with watching(model) as watched, recording_states(model, watched) as recorder:
        decoding = forced_decoding(model, [translation], device)
    # only_kind=None: the kind of a layer's attention (encoder, decoder or cross) is read from the layer's path
    return decoding, recorder.states_by_kind(KindOfPath(only_kind=None))


def attend_again(pattern: Pattern) -> Attended:
    """Compute the attention of a pattern anew, for the context vectors: a pattern does not store them."""
    return attend(
        pattern.query, pattern.key, pattern.value, score=pattern.score, mask=pattern.mask, normalise=pattern.normalise
    )
