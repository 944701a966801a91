"""A model shared out over processes: each keeps a part of every parameter, its gradient and its optimiser's state.

The matrix of a linear layer is put together just before the layer works, forward and backward, and let go after it;
what little is in no block, and the embeddings, once a step. What is computed is what one process would compute.

Source: Zhao et al. 2023, "PyTorch FSDP"; here in the form of torch.distributed.fsdp.fully_shard.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor


def shard(module: nn.Module, device: torch.device, n: int) -> nn.Module:
    """Share a module out over n processes; the module itself, its parameters are others.

    The unit is a linear layer of a block (a member of a module list), not the block: FSDP sees what goes in and out
    of a unit by its forward and by tensors alone, while decoder blocks are also asked to `prepare` a source, and
    blocks return records.
    """
    warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view tensor")  # no block changes one in place
    mesh = init_device_mesh(device.type, (n,))
    blocks = (block for part in module.modules() if isinstance(part, nn.ModuleList) for block in part)
    for layer in {layer: None for block in blocks for layer in block.modules() if isinstance(layer, nn.Linear)}:
        fully_shard(layer, mesh=mesh)
    fully_shard(module, mesh=mesh)
    return module


def is_shared_out(module: nn.Module) -> bool:
    """Was the module shared out?"""
    return isinstance(module, FSDPModule)


@contextmanager
def unexchanged(module: nn.Module) -> Iterator[None]:
    """Where the gradients of a shared out module are only added up in each process."""
    sharded = cast(FSDPModule, module)
    sharded.set_requires_gradient_sync(False)
    try:
        yield
    finally:
        sharded.set_requires_gradient_sync(True)


def whole(tensor: Tensor) -> Tensor:
    """A tensor of which every process may hold a part; all must ask at once."""
    tensor = tensor.detach()
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def part_from_main(tensor: Tensor, like: Tensor) -> Tensor:
    """A process's part, as of another tensor, of what the main one has whole; all of it where that is whole too."""
    if isinstance(like, DTensor):
        return distribute_tensor(tensor, like.device_mesh, like.placements)
    torch.distributed.broadcast(tensor, src=0)
    return tensor
