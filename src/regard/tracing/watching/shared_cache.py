"""Stores keys and values once for all decoding steps in which a model generates a text token by token.

At each step, the cache of transformers makes new tensors with the keys and values of all tokens so far. If the pattern
of each step kept its tensors, n steps would need memory for n² / 2 keys. Here the patterns of all steps share one
growing tensor, which exists as long as one of the patterns.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import TensorWeakRef, WeakTensorKeyDictionary

from regard.attention.attend import Attended
from regard.attention.pattern import Pattern

GROWTH = 1.2
"""A new buffer has this many times the needed length, so that not every decoding step has to allocate a buffer."""


@dataclass(slots=True)
class GrowingTensor:
    """A tensor [batch heads tokens width] to which the vectors of more tokens can be appended.

    Attributes:
        buffer: the vectors of the tokens so far, followed by free memory.
        n_tokens: the number of tokens so far.
        parts: weak references to the tensors that are views of the first tokens in the buffer.
    """

    buffer: Tensor
    n_tokens: int = 0
    parts: list[Any] = field(default_factory=list)

    def append(self, tensor: Tensor) -> None:
        """Append those tokens of `tensor` that are not in the buffer yet, and make `tensor` a view of the buffer.

        Args:
            tensor: the vectors of all tokens so far and of the new tokens.
        """
        before, n_tokens = self.n_tokens, tensor.shape[2]
        if n_tokens > self.buffer.shape[2]:
            grown = tensor.new_empty(*tensor.shape[:2], int(n_tokens * GROWTH) + 1, tensor.shape[3])
            grown[:, :, :before] = self.buffer[:, :, :before]
            self.parts = [reference for reference in self.parts if reference() is not None]
            for reference in self.parts:
                part = reference()
                part.data = grown.data[:, :, : part.shape[2]]
            self.buffer = grown
        self.buffer[:, :, before:n_tokens] = tensor[:, :, before:]
        self.n_tokens = n_tokens
        tensor.data = self.buffer.data[:, :, :n_tokens]  # .data: the version counters of the tensors stay as they are
        self.parts.append(TensorWeakRef(tensor))


@dataclass(slots=True, eq=False)
class SharedCache:
    """The keys and values of one attention module, stored once for all decoding steps of a generated text."""

    key: GrowingTensor
    value: GrowingTensor

    @classmethod
    def like(cls, key: Tensor, value: Tensor) -> "SharedCache":
        return cls(GrowingTensor(key[:, :, :0].clone()), GrowingTensor(value[:, :, :0].clone()))

    def append(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        """Append the new keys and values of a decoding step, and make its tensors `key` and `value` views of the cache.

        `query` is copied, because it may be a view of a tensor that also contains keys and values.
        """
        query.data = query.data.clone()
        self.key.append(key)
        self.value.append(value)
        CACHE_OF[key] = self


CACHE_OF: Any = WeakTensorKeyDictionary()
"""For each tensor of keys that is a view of a shared cache, this cache, which is freed with the last such tensor."""


class Sharing:
    """Makes the attention calls of one module in successive decoding steps share the memory of keys and values.

    Attributes:
        latest: weak references to the query, key and value of the latest call; None before the first call.
    """

    def __init__(self) -> None:
        self.latest: tuple[Any, ...] | None = None

    def shared(self, attended: Attended) -> Attended:
        """Return `attended`, with keys and values that share memory with those of the previous call where possible.

        Memory is shared if the keys and values begin with all keys and values of the previous call, a pattern of that
        call is still referenced, and autograd is disabled.
        """
        if torch.is_grad_enabled() or torch.compiler.is_compiling():
            self.latest = None
            return attended
        call = attended.pattern.call
        own = tuple(tensor.detach() for tensor in (call.query, call.key, call.value))
        query, key, value = own
        latest = None if self.latest is None else [reference() for reference in self.latest]
        attended = replace(
            attended, pattern=Pattern(call.changed(query=query, key=key, value=value), attended.pattern.known)
        )
        exists = latest is not None and all(tensor is not None for tensor in latest)
        if latest is not None and exists and continues(key, latest[1]) and continues(value, latest[2]):
            if latest[1] not in CACHE_OF:
                SharedCache.like(key, value).append(*latest)
            CACHE_OF[latest[1]].append(*own)
        self.latest = tuple(map(TensorWeakRef, own))
        return attended


def continues(tensor: Tensor, earlier: Tensor) -> bool:
    """Return whether a tensor of keys or values begins with all tokens of an earlier one, and has more tokens."""
    n_before = earlier.shape[2]
    return tensor.shape[2] > n_before and torch.equal(tensor[:, :, :n_before], earlier)
