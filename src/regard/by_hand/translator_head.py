"""One head of a translator as a worked example. The translator reads a text and a translation of the text."""

from torch import nn

from regard.by_hand.example_inputs import ExampleInputs
from regard.by_hand.linear_calls import linear_calls
from regard.by_hand.model_head import traced_inputs
from regard.tracing.focus import focus_on
from regard.tracing.tokens.encoding import check_text
from regard.tracing.tokens.token_reference import TokenReference
from regard.translation.search.beam import Beam
from regard.translation.translation import Translation
from regard.translation.translator import Translator


def translate_or_score(
    translator: Translator, text: str, target: str | None, truncate: bool, n_best: int = 1
) -> Translation:
    """Translate a text into up to `n_best` candidates, or score the given translation `target`."""
    check_text(text)
    if target is not None:
        return translator.score([text], targets=[target], truncate=truncate)[0]
    return translator.translate([text], search=Beam(n_best=n_best), truncate=truncate)[0]


def translator_inputs(
    translator: Translator,
    text: str,
    *,
    head: str | None = None,
    token: TokenReference | None = None,
    target: str | None = None,
    truncate: bool = False,
) -> tuple[ExampleInputs, int]:
    """Return the inputs of a worked example (one head of a translator, worked out by hand), and the query's position.

    Args:
        head: the head's name, "L3H1" for cross-attention, "encoder L3H1" or "decoder L3H1" for self-attention; None =
            the head with the most salient weight (large, on a distant key).
        token: the query token; None = the query with the most salient weight.
        target: the translation; None = the translator translates the text.
        truncate: cut a text that is too long; False = raise InputError.
    """
    translation = translate_or_score(translator, text, target, truncate)
    modules = translator.model.modules() if isinstance(translator.model, nn.Module) else ()
    with linear_calls(modules) as calls:
        trace = translation.trace  # runs the model
    focus = focus_on(trace, token, head)
    return traced_inputs(trace, focus, calls), focus.query
