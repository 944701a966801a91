"""The message of an expected exception, and a message that several files expect."""

from collections.abc import Callable

import pytest


def refusal(kind: type[BaseException], call: Callable[..., object], /, *arguments: object, **named: object) -> str:
    with pytest.raises(kind) as raised:
        call(*arguments, **named)
    return str(raised.value)


CHANGED_TENSOR = (
    "a tensor given to attend() was changed in place afterwards, so the weights of that call can no longer be "
    "computed; clone the tensor before you change it."
)
