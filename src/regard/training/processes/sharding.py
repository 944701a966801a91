"""A model sharded over processes: each keeps a part of every parameter, of its gradient and of its optimiser's state.

The matrix of a linear layer is gathered just before the layer works, forward and backward, and freed afterwards;
parameters outside the blocks, and the embeddings, are gathered once a step. The results are those of one process.

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
    """Shard a module over n processes and return the module, whose parameters are replaced.

    The unit of sharding is a linear layer of a block (a member of a module list), not the block: FSDP follows the
    inputs and outputs of a unit through its `forward` and through tensors alone, while decoder blocks have `prepare` as
    well, and blocks return records.
    """
    warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view tensor")  # no block changes one in place
    mesh = init_device_mesh(device.type, (n,))
    blocks = (block for part in module.modules() if isinstance(part, nn.ModuleList) for block in part)
    for layer in {layer: None for block in blocks for layer in block.modules() if isinstance(layer, nn.Linear)}:
        fully_shard(layer, mesh=mesh)
    fully_shard(module, mesh=mesh)
    return module


def is_sharded(module: nn.Module) -> bool:
    """Return whether `shard` was applied to the module."""
    return isinstance(module, FSDPModule)


@contextmanager
def without_exchange(module: nn.Module) -> Iterator[None]:
    """Keep the gradients of a sharded module in each process inside the block, without exchanging them."""
    sharded = cast(FSDPModule, module)
    sharded.set_requires_gradient_sync(False)
    try:
        yield
    finally:
        sharded.set_requires_gradient_sync(True)


def full_tensor(tensor: Tensor) -> Tensor:
    """Return the whole of a tensor that may be sharded; all processes must call it together."""
    tensor = tensor.detach()
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def part_from_main(tensor: Tensor, like: Tensor) -> Tensor:
    """Return this process's part of the main process's tensor, sharded as `like` is; the whole if it is not sharded."""
    if isinstance(like, DTensor):
        return distribute_tensor(tensor, like.device_mesh, like.placements)
    torch.distributed.broadcast(tensor, src=0)
    return tensor
