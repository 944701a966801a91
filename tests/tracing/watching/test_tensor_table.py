"""`TensorTable` forgets a tensor when it is freed, and not before."""

import gc

import torch

from regard.tracing.watching.tensor_table import TensorTable


def test_a_tensor_finds_its_own_value_and_an_equal_tensor_finds_none():
    table, tensor = TensorTable[str](), torch.ones(3)
    table[tensor] = "first"
    assert table.get(tensor) == "first"
    assert tensor in table
    assert table.get(torch.ones(3)) is None
    assert torch.ones(3) not in table
    table[tensor] = "second"
    assert table.get(tensor) == "second"


def test_an_entry_disappears_with_its_tensor():
    table = TensorTable[bool]()
    for _ in range(100):  # Python gives the ids of freed tensors to new ones
        assert torch.ones(3) not in table
        table[torch.ones(3)] = False
    gc.collect()
    assert not table


def test_a_tensor_that_only_c_code_holds_keeps_its_value():
    table, leaf = TensorTable[str](), torch.ones(3, requires_grad=True)
    doubled = leaf * 2
    table[doubled] = "doubled"
    squared = doubled * doubled  # the backward pass stores `doubled`
    del doubled
    gc.collect()
    assert squared.grad_fn is not None
    assert table.get(squared.grad_fn._saved_self) == "doubled"
