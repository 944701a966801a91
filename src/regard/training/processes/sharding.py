"""Sharding a model (FSDP): each process stores a part of every parameter, of its gradient and its optimiser state.

The weights of a linear layer in a block are gathered from all processes just before its forward and its backward pass,
and freed afterwards; all other parameters, such as embeddings, are gathered once per step. The results are those of
training in one process.

Source: Zhao et al. 2023, "PyTorch FSDP"; here in the form of torch.distributed.fsdp.fully_shard.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor


def shard(module: nn.Module, device: torch.device, n: int) -> nn.Module:
    """Shard the parameters of a module over n processes, in place.

    Each linear layer of the blocks (the members of an nn.ModuleList) is sharded separately. FSDP cannot shard a whole
    block: it gathers parameters only in `forward`, which must return tensors, but blocks return dataclasses, and
    decoder blocks have a second method, `prepare`.
    """
    # The warning says that a layer's output must not be changed in place: regard changes none
    warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view tensor")
    mesh = init_device_mesh(device.type, (n,))
    blocks = (block for part in module.modules() if isinstance(part, nn.ModuleList) for block in part)
    layers = (layer for block in blocks for layer in block.modules() if isinstance(layer, nn.Linear))
    for layer in dict.fromkeys(layers):  # each once, even if two blocks share it
        fully_shard(layer, mesh=mesh)
    fully_shard(module, mesh=mesh)  # all other parameters, such as embeddings
    return module


@contextmanager
def without_exchange(sharded: FSDPModule) -> Iterator[None]:
    """Let backward passes in the with-block add up gradients in each process, without exchanging them."""
    sharded.set_requires_gradient_sync(False)
    try:
        yield
    finally:
        sharded.set_requires_gradient_sync(True)


def full_tensor(tensor: Tensor) -> Tensor:
    """Return a tensor put together from its shards, or `tensor` if it is not sharded; all processes must call this."""
    tensor = tensor.detach()
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def part_from_main(tensor: Tensor, like: Tensor) -> Tensor:
    """Return this process's shard of the main process's tensor; the full tensor if `like` is not sharded.

    All processes must call this function with a tensor of the full shape; they get the numbers of the main process.
    """
    if isinstance(like, DTensor):
        return distribute_tensor(tensor, like.device_mesh, like.placements)
    torch.distributed.broadcast(tensor, src=0)
    return tensor
