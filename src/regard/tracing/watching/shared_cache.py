"""Stores keys and values once for all decoding steps in which a model generates a text token by token.

At each step, the cache of transformers makes new tensors with the keys and values of all tokens so far. If the pattern
of each step kept its tensors, n steps would need memory for n² / 2 keys. Here the patterns of all steps share one
growing tensor, which is freed when the last of these patterns is freed.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import TensorWeakRef, WeakTensorKeyDictionary

from regard.attention.attend import Attended
from regard.attention.pattern import Pattern

GROWTH = 1.2
"""A new buffer has this many times the needed length, so that later decoding steps need no new buffer."""


@dataclass(slots=True)
class GrowingTensor:
    """A tensor [batch heads tokens width] to which the vectors of more tokens can be appended.

    Attributes:
        buffer: the vectors of the tokens so far, followed by free memory.
        parts: weak references to the tensors that were appended; each is a view of the beginning of the buffer.
    """

    buffer: Tensor
    n_tokens: int = 0
    parts: list[Any] = field(default_factory=list)

    def append(self, tensor: Tensor) -> None:
        """Append the tokens that the buffer lacks; `tensor` has all tokens so far, and becomes a view of the buffer.

        If the buffer is full, a larger one replaces it, and the earlier tensors become views of the new buffer.
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
        # `.data` hides this assignment, and later writes to the buffer, from autograd, which would take them for
        # changes of `tensor`, and refuse the gradients of weights that were computed from it
        tensor.data = self.buffer.data[:, :, :n_tokens]
        self.parts.append(TensorWeakRef(tensor))


Cache = tuple[GrowingTensor, GrowingTensor]
"""The keys and the values of one attention module, stored once for all decoding steps of a generated text."""

CACHE_OF: Any = WeakTensorKeyDictionary()
"""Maps each recorded tensor of keys to the `Cache` of which it is a view; the entry ends when the tensor is freed."""


def append(cache: Cache, query: Tensor, key: Tensor, value: Tensor) -> None:
    """Append the new keys and values of a decoding step, and make the tensors `key` and `value` views of the cache.

    `query` is copied to memory of its own. It may be a view of a larger tensor that also contains keys and values;
    without the copy, the larger tensor would stay in memory.
    """
    query.data = query.data.clone()
    for growing, tensor in zip(cache, (key, value), strict=True):
        growing.append(tensor)
    CACHE_OF[key] = cache


class Sharing:
    """Lets the attention calls of one module in successive decoding steps share the memory of keys and values.

    `latest` has weak references to the query, key and value of the latest call; None before the first call.
    """

    def __init__(self) -> None:
        self.latest: tuple[Any, ...] | None = None

    def share_memory(self, attended: Attended) -> Attended:
        """Return `attended` with keys and values that share memory with those of the previous call, if possible.

        There are three conditions: the keys and values begin with those of the previous call; the tensors of the
        previous call still exist; and autograd is disabled.
        """
        if torch.is_grad_enabled() or torch.compiler.is_compiling():
            self.latest = None
            return attended
        call, statistics = attended.pattern.call, attended.pattern.statistics
        query, key, value = (tensor.detach() for tensor in (call.query, call.key, call.value))
        if (latest := self.existing_tensors()) is not None:
            latest_query, latest_key, latest_value = latest
            if continues(key, latest_key) and continues(value, latest_value):
                if latest_key not in CACHE_OF:  # at the second call: start a cache with the tensors of the first call
                    empty_cache = (GrowingTensor(key[:, :, :0].clone()), GrowingTensor(value[:, :, :0].clone()))
                    append(empty_cache, latest_query, latest_key, latest_value)
                append(CACHE_OF[latest_key], query, key, value)  # makes `key` and `value` views of the cache
        self.latest = tuple(map(TensorWeakRef, (query, key, value)))
        return replace(attended, pattern=Pattern(call.changed(query=query, key=key, value=value), statistics))

    def existing_tensors(self) -> tuple[Tensor, Tensor, Tensor] | None:
        """Return query, key and value of the latest call; None if there was no call, or if one of them is freed."""
        if self.latest is None:
            return None
        query, key, value = (reference() for reference in self.latest)
        return None if query is None or key is None or value is None else (query, key, value)


def continues(tensor: Tensor, earlier: Tensor) -> bool:
    """Return whether `tensor`, keys or values, begins with the tokens of `earlier` and has more after them."""
    n_before = earlier.shape[2]
    return tensor.shape[2] > n_before and torch.equal(tensor[:, :, :n_before], earlier)
