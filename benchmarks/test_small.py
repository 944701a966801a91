"""Microbenchmarks of small functions that are called often.

pytest benchmarks --benchmark-only
pytest benchmarks --benchmark-only --benchmark-save=before      and after a change: --benchmark-compare
"""

from collections.abc import Callable, Iterator
from typing import Protocol

import pytest
import torch
from torch import Tensor

from regard import Causal, Pattern, attend
from regard.transformer.config import TransformerConfig
from regard.transformer.model import Transformer
from regard.translation.search.beam import Beam
from regard.translation.search.interface import SourceBatch


class Benchmark(Protocol):
    """The fixture of pytest-benchmark, which runs a function many times."""

    def __call__(self, function: Callable[..., object], *arguments: object) -> object: ...


@pytest.fixture(autouse=True)
def _without_gradients() -> Iterator[None]:
    torch.manual_seed(0)
    with torch.inference_mode():
        yield


def parts(length: int) -> tuple[Tensor, ...]:
    """Return query, key and value of 8 heads."""
    return torch.randn(3, 1, 8, length, 64).unbind()


def pattern(length: int) -> Pattern:
    """Return a causal pattern, of which nothing is computed yet."""
    return attend(*parts(length), mask=Causal()).pattern


def test_attend_64(benchmark: Benchmark) -> None:
    """Mostly overhead."""
    benchmark(attend, *parts(64))


def test_attend_512(benchmark: Benchmark) -> None:
    benchmark(attend, *parts(512))


def test_one_row_of_4096(benchmark: Benchmark) -> None:
    causal = pattern(4096)
    benchmark(lambda: causal[0, 3, 2000])


def test_received_2048(benchmark: Benchmark) -> None:
    """Column sums of the weights of every head."""
    causal = pattern(2048)
    benchmark(causal.received)


def transformer() -> Transformer:
    return Transformer(TransformerConfig.preset("tiny", n_source_tokens=8000, n_target_tokens=8000)).eval()


def sources(model: Transformer) -> SourceBatch:
    """Return 16 source sentences of 20 random tokens."""
    return SourceBatch.of(model, torch.randint(4, 8000, (16, 20)).tolist())


def test_a_step_of_a_decoder(benchmark: Benchmark) -> None:
    """The 21st token of 16 translations."""
    model = transformer()
    batch = sources(model)
    decoding = model.compiled_decoding(batch.source, batch.lengths, most_rows=16, most_tokens=21)
    assert decoding is not None
    for tokens in torch.randint(4, 8000, (20, 16)).tolist():
        decoding.read(tokens, range(16))

    def step() -> None:
        decoding.arguments.tokens = 20  # so that every call reads the 21st token
        decoding.read(tokens, range(16))

    benchmark(step)


def test_a_beam(benchmark: Benchmark) -> None:
    model = transformer()
    batch = sources(model)
    benchmark(lambda: Beam(5).run(model, batch))


def test_a_backward_pass(benchmark: Benchmark) -> None:
    with torch.inference_mode(False), torch.enable_grad():
        query, key, value = (part.clone().requires_grad_() for part in parts(512))
        benchmark(lambda: attend(query, key, value, mask=Causal()).context.sum().backward())  # type: ignore[no-untyped-call]
