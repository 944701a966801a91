"""The flex backend agrees with the fused one, leaves blocks out, and compiles once for each kind of call.

FlexAttention does not compile functions with the type checks of these tests, so a process without the checks computes
everything and prints the errors as JSON.
"""

import json
import os
import subprocess
import sys

import pytest
import torch

from regard import Causal, Documents, Grid, Keep, Padding, ScaledDot, Softmax, Window, attend, use_backend
from regard.attention.backends import flex

BLOCKS = 3 * flex.BLOCK - 47
"""A number of keys: two blocks of FlexAttention and a part of a third."""

CALLS = {
    "no mask": {},
    "causal, softcap and temperature": {
        "mask": Causal(-1),
        "score": ScaledDot(scale=0.4, softcap=1.3),
        "normalise": Softmax(temperature=0.7),
    },
    "rules and tensors joined": {
        "mask": (Window(5, 1) | Padding(torch.tensor([200, 0])))
        & (
            Documents(torch.arange(BLOCKS) // 40)
            | Keep(torch.rand(2, 4, 137, BLOCKS, generator=torch.Generator().manual_seed(3)) < 0.3)
        )
    },
}
"""The smallest set of calls that uses every argument of FlexAttention, since compiling each takes seconds; the masks
are tested in `masks/test_flex.py`."""


def measured() -> dict[str, list[float]]:
    """Return, for each call, the largest difference between flex and the default backend, and the largest number."""
    random = torch.Generator().manual_seed(5)
    query, key, value = (torch.randn(2, h, n, 8, generator=random) for h, n in ((4, 137), (2, BLOCKS), (2, BLOCKS)))
    found = {}
    for name, call in CALLS.items():
        expected = attend(query, key, value, **call)
        with use_backend("flex"):
            seen = attend(query, key, value, **call)
        assert seen.backend == "flex"
        found[name] = [(seen.context - expected.context).abs().max().item(), expected.context.abs().max().item()]
    causal = CALLS["causal, softcap and temperature"]
    with use_backend("flex"):
        compiled = torch._dynamo.utils.counters["stats"]["unique_graphs"]
        found["blind"] = [attend(query, key, value, **causal).context[:, :, 0].abs().max().item()]
        attend(-query, key, value, **causal)
        far = 1e20 * query.abs(), -1e20 * key.abs(), value  # all scores are below the least number of float32
        seen = attend(*far)
        found["overflow"] = [
            (seen.context - seen.pattern.apply(value)).abs().max().item(),
            seen.pattern.dense().sum().item(),
        ]
        found["compiled again"] = [torch._dynamo.utils.counters["stats"]["unique_graphs"] - compiled]
        found["no keys"] = list(attend(query, key[:, :, :0], value[:, :, :0]).context.shape)
    return found


@pytest.fixture(scope="module")
def found():
    one_process = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}  # each further one would import torch
    environment = os.environ | one_process | {"JAXTYPING_DISABLE": "1"}
    run = subprocess.run([sys.executable, __file__], capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_flex_gives_what_the_other_backends_give(found, name):
    error, largest = found[name]
    assert error <= 2e-6 * largest  # float32, sums over 337 keys
    assert largest > 0.5


@pytest.mark.slow
def test_a_query_that_sees_no_key_has_context_0(found):
    assert found["blind"] == [0]
    assert found["no keys"] == [2, 4, 137, 8]


@pytest.mark.slow
def test_context_and_pattern_agree_where_scores_overflow(found):
    error, all_weights = found["overflow"]
    assert error <= 1e-6
    assert all_weights == pytest.approx(2 * 4 * 137)


@pytest.mark.slow
def test_the_same_kind_of_call_is_compiled_once(found):
    assert found["compiled again"] == [0]


@pytest.mark.parametrize("name", [name for name, call in CALLS.items() if "mask" in call])
def test_the_blocks_that_are_left_out_hold_nothing(name):
    mask, grid = CALLS[name]["mask"], Grid(2, 4, 137, BLOCKS)
    blocks = flex.block_mask(mask, grid, torch.device("cpu"))
    keep = mask.keep(grid.whole(), torch.device("cpu")).expand(grid.shape)
    for batch in range(2):
        for head in range(4):
            for row in range(2):
                for column in range(3):
                    part = keep[batch, head, row * 128 : (row + 1) * 128, column * 128 : (column + 1) * 128]
                    some, every = listed(blocks, batch, head, row)
                    whole = bool(part.all()) and part.shape[1] == 128
                    assert (column in every) == whole
                    assert (column in some) == (bool(part.any()) and not whole)


def listed(blocks, batch, head, row):
    """Yield, for a block of queries, the key blocks that the mask allows in part, then those it allows wholly."""
    for counts, numbers in (
        (blocks.kv_num_blocks, blocks.kv_indices),
        (blocks.full_kv_num_blocks, blocks.full_kv_indices),
    ):
        at = (min(batch, counts.shape[0] - 1), min(head, counts.shape[1] - 1), row)
        yield numbers[at][: counts[at]].tolist()


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(measured()))
