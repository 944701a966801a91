"""One copy of the keys and values for all steps in which a model generates a text token by token.

A cache of transformers makes new tensors at each step, with the keys and values of all earlier steps. If each recorded
step kept its own, n steps would need memory for n² / 2 keys. Here all steps share one growing tensor.
"""

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from regard.attention.attend import Attended
from regard.attention.pattern import Pattern

GROWTH = 1.2
"""How much longer a new tensor is than it has to be, so that not every step needs another."""


@dataclass(slots=True)
class GrowingTensor:
    """A tensor [batch heads tokens width] to which tokens are appended.

    Attributes:
        buffer: the tokens so far, and room for more.
        n_tokens: the number of tokens so far.
        parts: the tensors that earlier steps were given; each is a beginning of the buffer.
    """

    buffer: Tensor
    n_tokens: int = 0
    parts: list[Tensor] = field(default_factory=list)

    def append(self, tensor: Tensor) -> Tensor:
        """Append those tokens of a tensor that come after the tokens so far; return a tensor of all tokens."""
        before, n_tokens = self.n_tokens, tensor.shape[2]
        if n_tokens > self.buffer.shape[2]:
            grown = tensor.new_empty(*tensor.shape[:2], int(n_tokens * GROWTH) + 1, tensor.shape[3])
            grown[:, :, :before] = self.buffer[:, :, :before]
            for part in self.parts:
                part.data = grown.data[:, :, : part.shape[2]]
            self.buffer = grown
        self.buffer[:, :, before:n_tokens] = tensor[:, :, before:]
        self.n_tokens = n_tokens
        part = self.buffer.data[:, :, :n_tokens]  # .data: appending to the buffer does not count as changing the part
        self.parts.append(part)
        return part


@dataclass(slots=True)
class SharedCache:
    """The keys and values of one attention module, shared by its steps in a generation."""

    key: GrowingTensor
    value: GrowingTensor

    @classmethod
    def of(cls, attended: Attended) -> "SharedCache":
        """Return a cache that is still empty, for steps that start with this one."""
        call = attended.pattern.call
        return cls(GrowingTensor(call.key[:, :, :0].clone()), GrowingTensor(call.value[:, :, :0].clone()))

    def shared(self, attended: Attended) -> Attended:
        """Return an attention step with the shared keys and values instead of its own, which are equal."""
        call = attended.pattern.call
        key, value = self.key.append(call.key), self.value.append(call.value)
        query = call.query.clone()  # without the keys and values that a joint projection stores beside it
        shared = replace(call, query=query, key=key, value=value)
        return replace(attended, pattern=Pattern(shared, attended.pattern.known))


def continues(attended: Attended, earlier: Attended) -> bool:
    """Return whether the keys and values of a step begin with all those of an earlier step, without gradients."""
    if torch.is_grad_enabled():
        return False
    for name in ("key", "value"):
        now, before = (getattr(step.pattern.call, name) for step in (attended, earlier))
        n_before = before.shape[2]
        if now.shape[2] <= n_before or not torch.equal(now[:, :, :n_before], before):
            return False
    return True
