"""A translation to be looked at, and one head of its translator as numbers to work out by hand."""

from functools import partial

from torch import nn

from regard.by_hand.model_head import head_numbers, linear_calls, title_of
from regard.by_hand.numbers import Numbers
from regard.tracing.encoding import check_text
from regard.tracing.focus import focus_on
from regard.tracing.head import TokenReference
from regard.translation.translation import Translation
from regard.translation.translator import Translator


def translate_or_score(translator: Translator, text: str, target: str | None, truncate: bool) -> Translation:
    """A text with the translator's own translation, or with a target as if that were its own.

    Raises:
        InputError: a text without a word, or one that is too long and may not be truncated.
    """
    check_text(text)
    found = translator.translate if target is None else partial(translator.score, targets=[target])
    return found([text], truncate=truncate)[0]


def translator_numbers(
    translator: Translator,
    text: str,
    *,
    head: str | None = None,
    token: TokenReference | None = None,
    target: str | None = None,
    truncate: bool = False,
) -> tuple[Numbers, int]:
    """The numbers of one head of a translator while it reads a text and its translation, and the token to look at.

    Args:
        head: its name, "L3H1", or "encoder L3H1" for a kind other than the last; None = the most telling one.
        token: None = the most telling one.
        target: the translation; None = the translator's own.
        truncate: read only as much of the text as the model takes, instead of refusing.

    Raises:
        InputError: as `translation_of` and `focus_on` do; attention that is no softmax of products.
    """
    translation = translate_or_score(translator, text, target, truncate)
    modules = translator.model.modules() if isinstance(translator.model, nn.Module) else ()
    with linear_calls(modules) as ran:
        seen = translation.trace
    focus = focus_on(seen, token, head)
    return head_numbers(focus, ran, title_of(seen, focus)), focus.query
