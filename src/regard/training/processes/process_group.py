"""Training in one process, or in several processes on one machine or several, with Hugging Face's Accelerate.

    regard train …                                             one process
    torchrun --nproc-per-node 2 $(which regard) train …        two processes; `accelerate launch` works too

All processes take the same batches in the same order; each computes some rows of every batch, with its own random
numbers for dropout. Without dropout the result does not depend on the number of processes, nor on whether each process
stores the whole model or a shard of it (up to rounding).
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed, nn
from torch.distributed.fsdp import FSDPModule
from torch.optim import Optimizer

from regard.errors import InputError, import_extra
from regard.text.share import ALONE, Share
from regard.training.processes.connections import Connections
from regard.training.processes.sharding import full_tensor, part_from_main, shard, without_exchange
from regard.training.settings.train_config import Precision
from regard.translation.translator_folder import unique_tensors

ADAM_TENSORS = ("step", "exp_avg", "exp_avg_sq")

FSDP = "ACCELERATE_USE_FSDP"
"""The environment variable that `accelerate launch` sets to "true" if its config file asks for FSDP."""

UNSUPPORTED = {"ACCELERATE_USE_DEEPSPEED": "DeepSpeed", "ACCELERATE_USE_MEGATRON_LM": "Megatron-LM"}
"""Programs that regard does not support; a key is the variable by which `accelerate launch` asks for the program."""

TIMEOUT = timedelta(days=7)
"""The longest time that a process waits for another one; connections.py finds a lost process much earlier."""

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Processes:
    """The group of processes that train together, as seen by one of them.

    All processes must call the methods that exchange values: `total`, `any`, `from_main`, `share`, `parameters`,
    `optimiser_tensors` and `restore`.

    Attributes:
        accelerator: the accelerate.Accelerator of this process.
        launcher_shards: whether Accelerate's config asks for sharding by FSDP; used if the setting training.shard is
            None.
        connections: the connections by which this process notices that another one has died; None = there is only one
            process.
    """

    accelerator: Any
    launcher_shards: bool = False
    connections: Connections | None = None

    @classmethod
    def start(cls, device: torch.device, precision: Precision) -> "Processes":
        """Join the processes that a launcher such as torchrun started; without a launcher there is only this process.

        Args:
            device: cpu or cuda. A number, as in cuda:1, is allowed only if there is one process.
            precision: the data type of matrix products.
        """
        refuse_unsupported()
        has_number = device.type == "cuda" and device.index is not None
        if has_number:
            torch.cuda.set_device(device)  # Accelerate uses the current device, unless a launcher chose one
        accelerate = import_extra("accelerate", "translation")
        launcher_shards = os.environ.pop(FSDP, "false").lower() == "true"  # removed, so that Accelerate does not shard
        timeout = import_extra("accelerate.utils", "translation").InitProcessGroupKwargs(timeout=TIMEOUT)
        processes = cls(
            accelerate.Accelerator(
                cpu=device.type == "cpu",
                mixed_precision="bf16" if precision == "bfloat16" else "no",
                kwargs_handlers=[timeout],
            ),
            launcher_shards,
        )
        chosen_number = processes.device.index  # by Accelerate, from the launcher's variables
        launcher_chose_another_device = chosen_number is not None and chosen_number != device.index
        if has_number and (processes.n > 1 or launcher_chose_another_device):
            raise InputError(
                f"{device} is one device, and a launcher gives every process its own; give --device cuda, and "
                "choose the devices with CUDA_VISIBLE_DEVICES."
            )
        if processes.n == 1:
            return processes
        return replace(processes, connections=Connections.open(processes.rank, processes.n, processes.from_main))

    def __enter__(self) -> "Processes":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections to the other processes; raise LostError if an error arose because a process is lost."""
        if self.connections is None:
            return
        try:
            if error is None:
                self.connections.finish()
            elif isinstance(error, RuntimeError):  # torch.distributed raises it if another process is lost
                self.connections.raise_if_lost()
        finally:
            self.connections.close()

    @property
    def n(self) -> int:
        return int(self.accelerator.num_processes)

    @property
    def rank(self) -> int:
        """The number of this process among all processes, from 0."""
        return int(self.accelerator.process_index)

    @property
    def is_main(self) -> bool:
        """Whether this process has rank 0: it prints and writes the files of the training."""
        return bool(self.accelerator.is_main_process)

    @property
    def is_first_on_machine(self) -> bool:
        """Whether this process has the lowest rank of the processes on its machine."""
        return bool(self.accelerator.is_local_main_process)

    @property
    def device(self) -> torch.device:
        return self.accelerator.device

    def wait(self) -> None:
        self.accelerator.wait_for_everyone()

    def wrap(self, module: nn.Module, sharded: bool | None) -> nn.Module:
        """Move a module to this process's device; if there are several processes, wrap it by DDP or shard it by FSDP.

        The optimiser must be created from the result, because sharding replaces the parameters.

        Args:
            sharded: shard the parameters over the processes; None = only if Accelerate's config asks for FSDP.
        """
        if sharded is None:
            sharded = self.launcher_shards
        if self.n == 1 or not sharded:
            return self.accelerator.prepare_model(module)
        sharded_module = shard(module, self.device, self.n)
        return self.accelerator.prepare_model(sharded_module, evaluation_mode=True)  # evaluation_mode: no DDP

    def gradient_exchange(self, module: nn.Module, exchange: bool) -> AbstractContextManager[None]:
        """Return a context manager for a backward pass.

        Args:
            exchange: True = after the pass, the processes average their gradients. False = nothing is exchanged: each
                process adds the gradients of the pass to its own.
        """
        if exchange or self.n == 1:
            return nullcontext()
        return without_exchange(module) if isinstance(module, FSDPModule) else self.accelerator.no_sync(module)

    def backward(self, loss: Tensor) -> None:
        self.accelerator.backward(loss)

    def clip(self, module: nn.Module, norm: float) -> None:
        """Scale the gradient of all parameters so that its norm is at most `norm`; 0 = do nothing."""
        if norm:
            self.accelerator.clip_grad_norm_(module.parameters(), norm)

    def total(self, number: Tensor) -> Tensor:
        return number if self.n == 1 else self.accelerator.reduce(number, reduction="sum")

    def any(self, conditions: Sequence[bool]) -> list[bool]:
        """Return for each condition whether it is true in at least one process."""
        if self.n == 1:
            return list(conditions)
        counts = self.total(torch.tensor(conditions, dtype=torch.float32, device=self.device))
        return [bool(count) for count in counts > 0]

    def from_main(self, value: Value) -> Value:
        """Send a value from the main process to all processes; return it in each."""
        if self.n == 1:
            return value
        values = [value]
        distributed.broadcast_object_list(values, src=0)
        return values[0]

    def share(self, group: int) -> Share:
        """Return this process's share of the work of its group: all processes that give the same number `group`.

        Args:
            group: a number above 0; 0 = this process has no part in any work, and the result must not be used.
        """
        if self.n == 1:
            return ALONE
        own_group = torch.zeros(self.n, dtype=torch.int64, device=self.device)
        own_group[self.rank] = group
        group_of_rank = self.total(own_group).tolist()  # each process adds its group at its rank, and 0 elsewhere
        share = ALONE
        for each_group in sorted(set(group_of_rank) - {0}):
            ranks = [rank for rank, other in enumerate(group_of_rank) if other == each_group]
            members = distributed.new_group(ranks, timeout=TIMEOUT)  # all processes must call new_group
            if each_group == group:
                share = Share(ranks.index(self.rank), len(ranks), partial(exchange_parts, members))
        return share

    def parameters(self, module: nn.Module) -> dict[str, Tensor]:
        """Return the unsharded parameters and persistent buffers in the main process; elsewhere an empty dict."""
        return self.gather(unique_tensors(self.unwrapped(module)))

    def optimiser_tensors(self, module: nn.Module, optimiser: Optimizer) -> dict[str, Tensor]:
        """Return the unsharded tensors of the optimiser's state in the main process; elsewhere an empty dict.

        A tensor's name is the parameter's name and AdamW's name of the tensor, e.g. `encoder.bias:exp_avg`.
        """
        tensors = {}
        for name, parameter in self.unwrapped(module).named_parameters():
            for key, tensor in optimiser.state[parameter].items():
                tensors[f"{name}:{key}"] = tensor
        return self.gather(tensors)

    def gather(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the full `tensors`, put together from their shards, in the main process; elsewhere an empty dict.

        The result is on the CPU, where there is more memory.
        """
        gathered = {}
        for name, tensor in tensors.items():
            full = full_tensor(tensor)  # every process must call it
            if self.is_main:
                gathered[name] = full.cpu()
        return gathered

    def restore(
        self,
        module: nn.Module,
        optimiser: Optimizer,
        parameters: Mapping[str, Tensor],
        optimiser_tensors: Mapping[str, Tensor],
    ) -> None:
        """Copy the tensors of a checkpoint, or this process's shards of them, into the module and the optimiser.

        Args:
            parameters, optimiser_tensors: the results of the methods of these names, read from a checkpoint; only the
                main process needs them.
        """
        inner, tensors = self.unwrapped(module), {**parameters, **optimiser_tensors}
        with torch.no_grad():
            for name, tensor in unique_tensors(inner).items():
                tensor.copy_(self.shard_like(tensors, name, tensor))
        for name, parameter in inner.named_parameters():
            for key in ADAM_TENSORS:
                # AdamW's "step" is one number; its other tensors are sharded as the parameter is
                like = torch.zeros((), device=parameter.device) if key == "step" else parameter
                optimiser.state[parameter][key] = self.shard_like(tensors, f"{name}:{key}", like)

    def shard_like(self, tensors: Mapping[str, Tensor], name: str, like: Tensor) -> Tensor:
        """Send the tensor `name` from the main process to all processes; return this process's shard of it.

        The result has the data type, device and sharding of `like`: if `like` is not sharded, it is the full tensor.
        The shape of a sharded tensor (a DTensor) is that of the full tensor.
        """
        if self.is_main:
            check_shape(tensors, name, like.shape)
            # a copy, since AdamW changes its state in place
            tensor = tensors[name].to(like.device, like.dtype, copy=True)
        else:
            tensor = torch.empty(like.shape, dtype=like.dtype, device=like.device)
        return tensor if self.n == 1 else part_from_main(tensor, like)

    def unwrapped(self, module: nn.Module) -> nn.Module:
        return self.accelerator.unwrap_model(module)


def check_shape(tensors: Mapping[str, Tensor], name: str, shape: torch.Size) -> None:
    """Raise InputError unless a checkpoint has a tensor `name` of floating-point numbers with the given shape."""
    if name not in tensors:
        stored = "nothing"
    elif not tensors[name].is_floating_point():
        stored = f"numbers of the type {tensors[name].dtype}"
    elif tensors[name].shape != shape:
        stored = f"the shape {tuple(tensors[name].shape)}"
    else:
        return
    raise InputError(
        f"the checkpoint is of another model: for {name} it has {stored}, and the settings ask for the shape "
        f"{tuple(shape)}; restore the folder's config.toml, or train into another folder with --out."
    )


def exchange_parts(members: distributed.ProcessGroup, part: Any) -> list[Any]:
    parts = [None] * members.size()
    distributed.all_gather_object(parts, part, group=members)
    return parts


def refuse_unsupported() -> None:
    for variable, name in UNSUPPORTED.items():
        if os.environ.get(variable, "false").lower() == "true":
            raise InputError(
                f"Accelerate's config asks for {name}, and regard supports only DDP and FSDP; "
                "run `accelerate config` anew, or use torchrun."
            )
