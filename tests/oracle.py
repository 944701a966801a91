"""References and checks for the tests of attention.

    masks     every mask with the same rule in plain Python
    eager     attention in plain torch, in the data type of its input; its error is due to rounding alone
    stages    the arguments of `attend` for the options of `eager`
    Largest   records the size of the largest tensor that any operation makes
    Saved     records the bytes that a forward pass stores for the backward pass
    correct   the check: an error of at most twice that of `eager`

Source of the rule: FlashAttention, tests/test_flash_attn.py ("at most twice the numerical error of a Pytorch
implementation").
"""

import itertools
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from regard import ScaledDot, Softmax
from regard.attention.masks import Causal, Chunked, Dilated, Documents, Global, Keep, Mask, Padding, Prefix, Window

BATCH, HEADS, KEY_HEADS, D_KEY, D_VALUE = 2, 6, 3, 11, 13
SIZES = [(11, 19), (19, 17), (1, 19), (3, 5)]
"""(queries, keys): fewer queries than keys, as with a cache; more queries; one query, as in decoding; and fewer of both
than a CPU register holds, for which another kernel runs."""

HALF = [torch.bfloat16, torch.float16]
DTYPES = [torch.float32, *HALF]

Sees = Callable[[int, int, int, int], bool]
"""The type of a rule in plain Python: whether, in batch item b and head h, query i may attend to key j."""


@cache
def masks(queries: int, keys: int) -> dict[str, tuple[Mask | Tensor | None, Sees]]:
    """Return masks of every kind, and joined masks, for two batch items and six heads, each with its rule in Python."""
    late = keys - queries
    lengths, documents = [3, keys], ([4] * 3 + [9] * 7 + [0] * keys)[:keys]
    by_item = [documents, documents[::-1]]
    full = torch.rand(BATCH, HEADS, queries, keys, generator=torch.Generator().manual_seed(3)) < 0.6
    full[1, 4, 0] = False
    by_key = [j % 3 != 1 for j in range(keys)]
    by_query = [i % 2 == 0 for i in range(queries)]
    by_head = [h != 2 for h in range(HEADS)]
    padding = Padding(torch.tensor(lengths))
    every: dict[str, tuple[Mask | Tensor | None, Sees]] = {
        "none": (None, lambda b, h, i, j: True),
        "causal": (Causal(), lambda b, h, i, j: j <= i + late),
        "causal from the start": (Causal(offset=0), lambda b, h, i, j: j <= i),
        "causal ahead": (Causal(offset=3), lambda b, h, i, j: j <= i + 3),
        "causal behind": (Causal(offset=-1, own=False), lambda b, h, i, j: j <= i - 2),
        "window": (Window(2, 1), lambda b, h, i, j: -2 <= j - (i + late) <= 1),
        "window before the start": (Window(1, 0, offset=-3), lambda b, h, i, j: -1 <= j - (i - 3) <= 0),
        "window past the end": (Window(1, 1, offset=keys - 2), lambda b, h, i, j: -1 <= j - (i + keys - 2) <= 1),
        "prefix": (Prefix(4), lambda b, h, i, j: j < 4 or j <= i + late),
        "prefix by item": (Prefix(torch.tensor([2, 13])), lambda b, h, i, j: j < [2, 13][b] or j <= i + late),
        "prefix from the start": (Prefix(3, offset=0), lambda b, h, i, j: j < 3 or j <= i),
        "dilated": (Dilated(7, 4, 3), lambda b, h, i, j: j - (i + late) in (-6, -3, 0, 3)),
        "dilated before the start": (Dilated(5, 1, 2, offset=-3), lambda b, h, i, j: j - (i - 3) in (-4, -2, 0)),
        "chunked": (Chunked(5), lambda b, h, i, j: {i + late, j} <= chunk_of_five(j)),
        "chunked before the start": (Chunked(5, offset=-3), lambda b, h, i, j: {i - 3, j} <= chunk_of_five(j)),
        "global": (Global([0, keys - 2]), lambda b, h, i, j: bool({0, keys - 2} & {i + late, j})),
        "global from ahead": (Global([2], offset=1), lambda b, h, i, j: 2 in (i + 1, j)),
        "longformer": (Window(2, 2) | Global([1]), lambda b, h, i, j: abs(i + late - j) <= 2 or 1 in (i + late, j)),
        "llama 4": (Causal() & Chunked(5), lambda b, h, i, j: j <= i + late and {i + late, j} <= chunk_of_five(j)),
        "sparse transformer": (Causal() & Dilated(keys, keys, 4), lambda b, h, i, j: j in range(i + late, -1, -4)),
        "padding": (padding, lambda b, h, i, j: j < lengths[b]),
        "padding alone": (Padding(torch.tensor([0, 4])), lambda b, h, i, j: j < [0, 4][b]),
        "padding for all": (Padding(torch.tensor([2])), lambda b, h, i, j: j < 2),
        "padding on the left": (Padding(torch.tensor(lengths), side="left"), lambda b, h, i, j: keys - j <= lengths[b]),
        "both ends padded": (
            Causal() & Padding(torch.tensor([2, keys + 3]), side="left") & Padding(torch.tensor([keys - 1])),
            lambda b, h, i, j: j <= i + late and keys - j <= [2, keys + 3][b] and j < keys - 1,
        ),
        "keep": (Keep(full), lambda b, h, i, j: bool(full[b, h, i, j])),
        "keep by key": (torch.tensor(by_key), lambda b, h, i, j: by_key[j]),
        "keep by query": (torch.tensor(by_query)[:, None], lambda b, h, i, j: by_query[i]),
        "keep by head": (torch.tensor(by_head)[:, None, None], lambda b, h, i, j: by_head[h]),
        "keep nothing": (torch.tensor(False), lambda b, h, i, j: False),
        "both": (Causal() & padding, lambda b, h, i, j: j <= i + late and j < lengths[b]),
        "both apart": (Window(0, 0) & Padding(torch.tensor([1])), lambda b, h, i, j: j == i + late and j < 1),
        "either": (Window(1, 0) | Padding(torch.tensor([1])), lambda b, h, i, j: -1 <= j - i - late <= 0 or j < 1),
        "opposite": (~Causal(0), lambda b, h, i, j: j > i),
        "opposite of padding": (~padding, lambda b, h, i, j: j >= lengths[b]),
        "of all kinds": (
            (Causal() | ~padding) & ~Keep(full),
            lambda b, h, i, j: (j <= i + late or j >= lengths[b]) and not full[b, h, i, j],
        ),
    }
    if queries <= keys:
        every["documents"] = (
            Documents(torch.tensor(documents)),
            lambda b, h, i, j: documents[i + late] == documents[j],
        )
        every["documents by item"] = (
            Documents(torch.tensor(by_item)) & Causal(),
            lambda b, h, i, j: by_item[b][i + late] == by_item[b][j] and j <= i + late,
        )
    return every


def chunk_of_five(position: int) -> set[int]:
    """All positions of the chunk that a position lies in, found by walking to its borders."""
    chunk = {position}
    while min(chunk) % 5 != 0:
        chunk.add(min(chunk) - 1)
    while (max(chunk) + 1) % 5 != 0:
        chunk.add(max(chunk) + 1)
    return chunk


MASKS = [(*SIZES[0], name) for name in masks(*SIZES[0])] + [
    (*size, name)
    for size, name in zip(itertools.cycle(SIZES[1:]), masks(*SIZES[0]), strict=False)
    if name in masks(*size)
]
"""(queries, keys, name of a mask): every mask at the first size, and at one of the other sizes."""


def matrix(sees: Sees, batch: int, heads: int, queries: int, keys: int) -> Tensor:
    """Return a rule in plain Python as a boolean tensor [batch heads queries keys]."""
    places = itertools.product(range(batch), range(heads), range(queries), range(keys))
    return torch.tensor([sees(*place) for place in places], dtype=torch.bool).reshape(batch, heads, queries, keys)


def eager(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    keep: Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    bias: Tensor | None = None,
    temperature: float = 1.0,
    sinks: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Context and weights as plain torch computes them, in the type of the input."""
    group = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    scores = query @ key.mT * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias.to(scores)
    if keep is not None:
        scores = scores.masked_fill(~keep, -math.inf)
    scores = scores / temperature
    if sinks is not None:
        sinks = sinks.to(scores)[:, None, None] / temperature
        scores = torch.cat([scores, sinks.expand(*scores.shape[:3], 1)], dim=-1)
    weights = scores.softmax(dim=-1)[..., : key.shape[2]]
    if keep is not None:
        weights = weights.masked_fill(~keep.any(dim=-1, keepdim=True), 0.0)
    return weights @ value, weights


def stages(
    scale: float | None = None,
    softcap: float | None = None,
    bias: Tensor | None = None,
    temperature: float = 1.0,
    sinks: Tensor | None = None,
) -> dict[str, Any]:
    """Return the arguments `score` and `normalise` of `attend` for these options of `eager`."""
    return {"score": ScaledDot(scale, softcap, bias), "normalise": Softmax(temperature, sinks)}


def correct(found: Tensor, truth: Tensor, control: Tensor) -> None:
    """Fail unless `found` is at most twice as far from the truth as `control`, which is computed in plain torch.

    `control` may equal the truth by chance, so an error in the last digit of the type of `found` is allowed too.
    """
    assert found.shape == truth.shape == control.shape
    if truth.numel() == 0:
        return
    error, allowed = (float((x.double() - truth).abs().max()) for x in (found, control))
    last_digit = torch.finfo(found.dtype).eps * float(truth.abs().max())
    assert error <= 2 * allowed + last_digit, (
        f"error {error:.2e}, plain torch {allowed:.2e}, last digit {last_digit:.2e}"
    )


def near(found: Tensor, truth: Tensor) -> None:
    """Fail unless both agree in float64 to 12 digits: more than a wrong formula gives, fewer than rounding spoils."""
    torch.testing.assert_close(found, truth, rtol=1e-12, atol=1e-12)


def row(*scores: float) -> Tensor:
    """One query's scores or weights, in float64."""
    return torch.tensor(scores, dtype=torch.float64)[None, None, None]


class Largest(TorchDispatchMode):
    """Records the number of elements of the largest tensor that any operation allocates."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor):
                self.numbers = max(self.numbers, tensor.untyped_storage().nbytes() // tensor.itemsize)
        return result


class Saved(torch.autograd.graph.saved_tensors_hooks):
    """Records the bytes of the tensors that a forward pass stores for the backward pass; shared memory counts once."""

    def __init__(self):
        self.bytes_at = {}
        super().__init__(self.save, lambda tensor: tensor)

    def __enter__(self):
        super().__enter__()
        return self

    def save(self, tensor):
        memory = tensor.untyped_storage()
        self.bytes_at[memory.data_ptr()] = memory.nbytes()
        return tensor

    @property
    def bytes(self):
        return sum(self.bytes_at.values())
