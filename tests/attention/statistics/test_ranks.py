"""Tests of statistics computed by two processes together: they equal those of one process bit for bit."""

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from refusals import refusal

from regard import Ask, Causal, Padding, Sigmoid, Softmax, attend
from regard.attention.statistics.cpu import plan
from regard.attention.statistics.ranks import summary_over_ranks

CALLS = {
    "causal": ({"mask": Causal()}, Ask(own=True, previous=True, top=3, pooled=(7, 5))),
    "max": ({"mask": Padding(torch.tensor([29, 53])), "normalise": Softmax(0.7)}, Ask(pooled=(7, 5), reduce="max")),
    "groups": ({"mask": Causal(-9)}, Ask(groups=torch.arange(53) % 4 == torch.arange(4)[:, None], reduce="sum")),
    "columns alone": ({}, Ask(entropy=False, distance=False, first=False)),
}


def pattern_of(name):
    random = torch.Generator().manual_seed(11)
    query, key, value = (torch.randn(2, n_heads, n, 7, generator=random) for n_heads, n in ((3, 37), (1, 53), (1, 53)))
    call, ask = CALLS[name]
    return attend(query, key, value, **call).pattern, ask


def tensors_of(summary):
    found = {name: getattr(summary, name) for name in summary.__slots__ if name not in ("ask", "top")}
    if summary.top is not None:
        found |= {"top weights": summary.top.weights, "top keys": summary.top.keys}
    return {name: tensor for name, tensor in found.items() if tensor is not None}


def one_of_two(rank: str, folder: str) -> None:
    """Compute the statistics as one of two processes, and save them in `folder`; each process runs this function."""
    plan.BLOCK_QUERIES = 5
    store = (Path(folder) / "store").as_uri()
    torch.distributed.init_process_group(
        "gloo", init_method=store, rank=int(rank), world_size=2, timeout=timedelta(minutes=2)
    )
    told = []
    found = {}
    for name in CALLS:
        pattern, ask = pattern_of(name)
        found[name] = tensors_of(summary_over_ranks(pattern, ask, report=lambda done, of: told.append(done)))
    torch.save(found, Path(folder) / f"{rank}.pt")
    assert bool(told) == (rank == "0")
    other = attend(*torch.ones(3, 1, 1, 4 + int(rank), 2)).pattern
    assert refusal(ValueError, summary_over_ranks, other, Ask()) == (
        "every rank must be given the same pattern: rank 0 has [1, 1, 4, 4], rank 1 has [1, 1, 5, 5]."
    )
    unsupported = attend(*torch.ones(3, 1, 1, 4, 2), normalise=Sigmoid()).pattern
    assert refusal(ValueError, summary_over_ranks, unsupported, Ask()) == (
        "the ranks compute by the CPU kernel, which does not support Pattern(batch=1, heads=1, queries=4, keys=4, "
        "normalise=Sigmoid()): the kernel computes only softmax with a temperature above 0; "
        "compute the statistics in this process: pattern.answer(ask)."
    )
    torch.distributed.destroy_process_group()


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Return the numbers of both processes; this process is one of them, since another would import PyTorch again."""
    folder = tmp_path_factory.mktemp("ranks")
    paths = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])  # of refusals.py
    given = {"stderr": subprocess.PIPE, "text": True, "env": os.environ | {"PYTHONPATH": paths}}
    with subprocess.Popen([sys.executable, __file__, "1", str(folder)], **given) as other:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(plan, "BLOCK_QUERIES", 5)  # restored in the end
            one_of_two("0", str(folder))
        errors = other.communicate(timeout=120)[1]
    assert other.returncode == 0, errors
    return [torch.load(folder / f"{rank}.pt") for rank in "01"]


@pytest.mark.parametrize("name", CALLS)
def test_every_rank_has_the_numbers_of_one_process(both, name, monkeypatch):
    monkeypatch.setattr(plan, "BLOCK_QUERIES", 5)
    pattern, ask = pattern_of(name)
    expected = tensors_of(pattern.answer(ask))
    for found in both:
        assert found[name].keys() == expected.keys()
        for statistic, numbers in expected.items():
            assert torch.equal(found[name][statistic], numbers), statistic


def test_without_a_process_group_it_says_what_to_do():
    assert refusal(RuntimeError, summary_over_ranks, *pattern_of("causal")) == (
        "torch.distributed has no process group; call torch.distributed.init_process_group first, "
        "or compute the statistics in this process: pattern.answer(ask)."
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    one_of_two(*sys.argv[1:])
