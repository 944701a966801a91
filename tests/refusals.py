"""Reading the message of a refusal."""

from collections.abc import Callable

import pytest


def refusal(kind: type[Exception], call: Callable[..., object], /, *arguments: object, **named: object) -> str:
    """The text with which a call is refused."""
    with pytest.raises(kind) as raised:
        call(*arguments, **named)
    return str(raised.value)
