"""The processes that train together, on one machine or several, by Accelerate; usually there is one.

    regard train …                                             one process
    torchrun --nproc-per-node 2 $(which regard) train …        two processes; `accelerate launch` works too

All processes take the same batches in the same order; each computes its own rows, with its own random numbers for
dropout. Without dropout the result does not depend on the number of processes, nor on whether each has the whole model
or a shard of it. Only the first process, the main one, writes files and prints. When one process is lost, all end.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from types import TracebackType
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from regard.errors import InputError, import_extra
from regard.training.processes.heartbeat import Heartbeat
from regard.training.processes.sharding import full_tensor, is_sharded, part_from_main, shard, without_exchange
from regard.training.settings.train_config import Precision

ADAM = ("step", "exp_avg", "exp_avg_sq")
"""The tensors of AdamW's state for a parameter."""

FSDP = "ACCELERATE_USE_FSDP"
"""The environment variable that `accelerate launch` sets if its config asks for FSDP."""

UNSUPPORTED = {"ACCELERATE_USE_DEEPSPEED": "DeepSpeed", "ACCELERATE_USE_MEGATRON_LM": "Megatron-LM"}
"""The environment variables that `accelerate launch` sets for what regard does not support."""

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True)
class Processes:
    """The processes that train together, as seen by one of them."""

    accelerator: Any
    launcher_shards: bool = False
    """Whether Accelerate's config asks for a sharded model; training.shard overrides it unless it is None."""

    heartbeat: Heartbeat | None = None
    """None = there is one process."""

    @classmethod
    def start(cls, device: torch.device, precision: Precision) -> "Processes":
        """Meet the other processes, if a launcher started any.

        Raises:
            InputError: Accelerate's config asks for what regard does not support, another process does not connect, or
                the launcher gives this process another device than the numbered one.
        """
        refuse_unsupported()
        numbered = device.type == "cuda" and device.index is not None
        if numbered:
            torch.cuda.set_device(device)  # Accelerate takes the current device, unless a launcher gives each its own
        accelerate = import_extra("accelerate", "translation")
        launcher_shards = os.environ.pop(FSDP, "false").lower() == "true"  # regard shards by itself, on CPUs too
        timeout = import_extra("accelerate.utils", "translation").InitProcessGroupKwargs(timeout=timedelta(days=7))
        processes = cls(
            accelerate.Accelerator(
                cpu=device.type == "cpu",
                mixed_precision="bf16" if precision == "bfloat16" else "no",
                kwargs_handlers=[timeout],
            ),
            launcher_shards,
        )
        if numbered and (processes.n > 1 or processes.device.index not in (None, device.index)):
            raise InputError(
                f"{device} is one device, and a launcher gives every process its own; give --device cuda, and say "
                "which devices there are to share out with CUDA_VISIBLE_DEVICES."
            )
        if processes.n == 1:
            return processes
        return replace(processes, heartbeat=Heartbeat.open(processes.rank, processes.n, processes.from_main))

    def __enter__(self) -> "Processes":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections to the other processes.

        Raises:
            LostError: an exchange failed because another process is lost.
        """
        if self.heartbeat is None:
            return
        try:
            if error is None:
                self.heartbeat.finish()
            elif isinstance(error, RuntimeError):  # torch.distributed raises it when an exchange fails
                self.heartbeat.raise_if_lost()
        finally:
            self.heartbeat.close()

    @property
    def n(self) -> int:
        """The number of processes."""
        return int(self.accelerator.num_processes)

    @property
    def rank(self) -> int:
        """The number of this process, from 0."""
        return int(self.accelerator.process_index)

    @property
    def is_main(self) -> bool:
        """Whether this is the main process, which writes files and prints."""
        return bool(self.accelerator.is_main_process)

    @property
    def is_first_here(self) -> bool:
        """Whether this is the first process of its machine."""
        return bool(self.accelerator.is_local_main_process)

    @property
    def device(self) -> torch.device:
        """The device of this process."""
        return self.accelerator.device

    def wait(self) -> None:
        """Wait until all processes have reached this call."""
        self.accelerator.wait_for_everyone()

    def wrap(self, module: nn.Module, sharded: bool | None) -> nn.Module:
        """Return a module that all processes train together, on their devices; create its optimiser afterwards.

        Args:
            module: the same module in all processes.
            sharded: each process keeps a shard of the parameters; None = as Accelerate's config says.
        """
        if self.n == 1 or not (self.launcher_shards if sharded is None else sharded):
            return self.accelerator.prepare_model(module)
        return self.accelerator.prepare_model(shard(module, self.device, self.n), evaluation_mode=True)

    def gradient_exchange(self, module: nn.Module, exchange: bool) -> AbstractContextManager[None]:
        """Return the context of a backward pass, which exchanges gradients between processes only if `exchange`."""
        if exchange or self.n == 1:
            return nullcontext()
        return without_exchange(module) if is_sharded(module) else self.accelerator.no_sync(module)

    def backward(self, loss: Tensor) -> None:
        """Add the gradients of a loss to those of the parameters."""
        self.accelerator.backward(loss)

    def clip(self, module: nn.Module, norm: float) -> None:
        """Scale the gradient to a norm if its norm is larger; 0 = no clipping."""
        if norm:
            self.accelerator.clip_grad_norm_(module.parameters(), norm)

    def total(self, number: Tensor) -> Tensor:
        """Return the sum of a number over all processes."""
        return number if self.n == 1 else self.accelerator.reduce(number, reduction="sum")

    def any(self, conditions: Sequence[bool]) -> list[bool]:
        """Return for each condition whether it holds in any process."""
        if self.n == 1:
            return list(conditions)
        counts = self.total(torch.tensor(conditions, dtype=torch.float32, device=self.device))
        return [bool(count) for count in counts > 0]

    def from_main(self, numbers: list[Number]) -> list[Number]:
        """Return the main process's numbers, all of one type, in every process."""
        if self.n == 1:
            return numbers
        exact = torch.float64 if isinstance(numbers[0], float) else torch.int64
        return self.total(torch.tensor(numbers, dtype=exact, device=self.device) * self.is_main).tolist()

    def parameters(self, module: nn.Module) -> dict[str, Tensor]:
        """Return all parameters and buffers, each whole and once, in the main process; an empty dict in the others."""
        return self.gathered(named_tensors(self.unwrapped(module)))

    def optimiser_tensors(self, module: nn.Module, optimiser: Optimizer) -> dict[str, Tensor]:
        """Return the optimiser's tensors, each whole, in the main process; an empty dict in the others.

        Their names are those of the parameter and of the tensor: `encoder.bias:exp_avg`.
        """
        named, state = self.unwrapped(module).named_parameters(), optimiser.state
        return self.gathered({f"{name}:{key}": tensor for name, p in named for key, tensor in state[p].items()})

    def gathered(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Collect the tensors of a model that is shared out, one tensor at a time, in the main process, on the CPU."""
        if self.n == 1:
            return {name: tensor.detach() for name, tensor in tensors.items()}
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
        """Restore the tensors of `parameters` and `optimiser_tensors`, which only the main process needs to have.

        Raises:
            InputError: the tensors belong to another model.
        """
        inner, tensors = self.unwrapped(module), {**parameters, **optimiser_tensors}
        with torch.no_grad():
            for name, tensor in named_tensors(inner).items():
                tensor.copy_(self.own_part(tensors, name, tensor))
        for name, parameter in inner.named_parameters():
            for key in ADAM:
                like = torch.zeros((), device=parameter.device) if key == "step" else parameter
                optimiser.state[parameter][key] = self.own_part(tensors, f"{name}:{key}", like)

    def own_part(self, tensors: Mapping[str, Tensor], name: str, like: Tensor) -> Tensor:
        """Return this process's part of a tensor that the main process has whole.

        Raises:
            InputError: the main process does not have the tensor, or in another shape.
        """
        if self.is_main:
            tensor = tensors.get(name)
            if tensor is None or tensor.shape != like.shape:
                has = "nothing" if tensor is None else f"the shape {tuple(tensor.shape)}"
                raise InputError(
                    f"the checkpoint is of another model: for {name} it has {has}, and the settings ask for the shape "
                    f"{tuple(like.shape)}; put the folder's config.toml back, or train into another with --out."
                )
            tensor = tensor.to(like.device, like.dtype, copy=True)
        else:
            tensor = torch.empty(like.shape, dtype=like.dtype, device=like.device)
        return tensor if self.n == 1 else part_from_main(tensor, like)

    def unwrapped(self, module: nn.Module) -> nn.Module:
        """Return the module that `wrap` was called with."""
        return self.accelerator.unwrap_model(module)


def named_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Return parameters and persistent buffers, each once: a shared parameter has the name of its first module."""
    persistent = module.state_dict(keep_vars=True).keys()
    buffers = {name: buffer for name, buffer in module.named_buffers() if name in persistent}
    return {**dict(module.named_parameters()), **buffers}


def refuse_unsupported() -> None:
    """Raise InputError if Accelerate's config asks for DeepSpeed or Megatron-LM."""
    for variable, name in UNSUPPORTED.items():
        if os.environ.get(variable, "false").lower() == "true":
            raise InputError(
                f"Accelerate's config asks for {name}, and regard does DDP and FSDP alone; "
                "run `accelerate config` anew, or use torchrun."
            )
