"""The stages of models that merge patches, such as Swin: layers with the same tokens."""

from collections.abc import Mapping, Sequence

from regard.errors import InputError
from regard.tracing.tokens.readable_tokens import Token


def several_stages_error(sources: Mapping[int, tuple[Token, ...]]) -> InputError:
    """Return the InputError for a method that needs the same tokens in all layers, if layers have different tokens.

    Args:
        sources: the tokens of each encoder layer.
    """
    stages: dict[tuple[Token, ...], list[int]] = {}
    for layer, tokens in sources.items():
        stages.setdefault(tokens, []).append(layer)
    found = ", ".join(f"{len(tokens)} in {layers_label(layers)}" for tokens, layers in stages.items())
    return InputError(
        f"the layers of this trace have different tokens ({found}); ask a part of it, such as "
        f"trace.stage({next(iter(sources))})."
    )


def layers_label(numbers: Sequence[int]) -> str:
    """Return consecutive layer numbers in words.

    >>> layers_label([2]), layers_label([2, 3, 4])
    ('layer 2', 'layers 2 to 4')
    """
    return f"layer {numbers[0]}" if len(numbers) == 1 else f"layers {numbers[0]} to {numbers[-1]}"
