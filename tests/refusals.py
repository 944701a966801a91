"""A helper that returns the message of an expected exception."""

from collections.abc import Callable

import pytest


def refusal(kind: type[Exception], call: Callable[..., object], /, *arguments: object, **named: object) -> str:
    """Call a function that must raise an exception of this class; return the exception's message."""
    with pytest.raises(kind) as raised:
        call(*arguments, **named)
    return str(raised.value)
