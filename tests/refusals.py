"""The message of an expected exception."""

from collections.abc import Callable

import pytest


def refusal(kind: type[BaseException], call: Callable[..., object], /, *arguments: object, **named: object) -> str:
    with pytest.raises(kind) as raised:
        call(*arguments, **named)
    return str(raised.value)
