"""The processes that train together, on one machine or several, through Accelerate; one alone is the usual case.

    regard train …                                       one process
    torchrun --nproc-per-node 2 -m regard.cli.main train …       two; `accelerate launch` does as well

All take the same batches in the same order and each works through its share of the rows, so that a training is the
same whatever their number. Only the first, `main`, writes files and speaks.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer

from regard.errors import needs
from regard.training.config import Precision

ADAM = ("step", "exp_avg", "exp_avg_sq")
"""What AdamW keeps of a parameter."""


@dataclass(frozen=True, slots=True)
class Processes:
    """The processes that train together, as one of them sees them."""

    accelerator: Any

    @classmethod
    def start(cls, device: torch.device, precision: Precision) -> "Processes":
        """Meet the other processes, if a launcher started any."""
        accelerate = needs("accelerate", "translation")
        patience = needs("accelerate.utils", "translation").InitProcessGroupKwargs(timeout=timedelta(days=7))
        return cls(
            accelerate.Accelerator(
                cpu=device.type == "cpu",
                mixed_precision="bf16" if precision == "bfloat16" else "no",
                kwargs_handlers=[patience],
            )
        )

    @property
    def n(self) -> int:
        """How many there are."""
        return int(self.accelerator.num_processes)

    @property
    def rank(self) -> int:
        """Which of them this is."""
        return int(self.accelerator.process_index)

    @property
    def is_main(self) -> bool:
        """Is this the one that writes?"""
        return bool(self.accelerator.is_main_process)

    @property
    def is_first_here(self) -> bool:
        """Is this the first one of its machine?"""
        return bool(self.accelerator.is_local_main_process)

    @property
    def device(self) -> torch.device:
        """Where this one computes."""
        return self.accelerator.device

    def wait(self) -> None:
        """Go on when all have come here."""
        self.accelerator.wait_for_everyone()

    def wrap(self, module: nn.Module, optimiser: Optimizer) -> tuple[nn.Module, Optimizer]:
        """The two ready to be used by all of them together."""
        module, prepared = self.accelerator.prepare(module, optimiser)
        return module, prepared

    def together(self, module: nn.Module, exchanged: bool) -> AbstractContextManager[None]:
        """Where gradients are exchanged after the backward pass, or only added up here."""
        return nullcontext() if exchanged or self.n == 1 else self.accelerator.no_sync(module)

    def backward(self, loss: Tensor) -> None:
        """Add up the gradients of a loss."""
        self.accelerator.backward(loss)

    def clip(self, module: nn.Module, norm: float) -> None:
        """Shorten the gradient to a norm, if it is longer; 0 = leave it."""
        if norm:
            self.accelerator.clip_grad_norm_(module.parameters(), norm)

    def total(self, number: Tensor) -> Tensor:
        """The sum of a number over all of them."""
        return number if self.n == 1 else self.accelerator.reduce(number, reduction="sum")

    def any(self, here: Sequence[bool]) -> list[bool]:
        """Is each so in any of them?"""
        if self.n == 1:
            return list(here)
        return [bool(count) for count in self.total(torch.tensor(here, dtype=torch.float32, device=self.device)) > 0]

    def from_main(self, numbers: list[int]) -> list[int]:
        """The main process's whole numbers, to all of them."""
        if self.n == 1:
            return numbers
        told = torch.tensor(numbers if self.is_main else [0] * len(numbers), device=self.device)
        return [int(number) for number in self.total(told)]

    def parameters(self, module: nn.Module) -> dict[str, Tensor]:
        """All parameters and buffers, each whole and under one name."""
        return {name: self.whole(tensor) for name, tensor in named_tensors(self.unwrapped(module)).items()}

    def optimiser_tensors(self, module: nn.Module, optimiser: Optimizer) -> dict[str, Tensor]:
        """All tensors of the optimiser, each whole, by the parameter's name and their own: `encoder.bias:exp_avg`."""
        named, state = self.unwrapped(module).named_parameters(), optimiser.state
        return {f"{name}:{key}": self.whole(tensor) for name, p in named for key, tensor in state[p].items()}

    def restore(
        self,
        module: nn.Module,
        optimiser: Optimizer,
        parameters: Mapping[str, Tensor],
        optimiser_tensors: Mapping[str, Tensor],
    ) -> None:
        """Put back what `parameters` and `optimiser_tensors` gave; the main process has them, the others none."""
        inner = self.unwrapped(module)
        with torch.no_grad():
            for name, tensor in named_tensors(inner).items():
                tensor.copy_(self.part(parameters.get(name), tensor))
        for name, parameter in inner.named_parameters():
            for key in ADAM:
                like = torch.zeros((), device=parameter.device) if key == "step" else parameter
                optimiser.state[parameter][key] = self.part(optimiser_tensors.get(f"{name}:{key}"), like)

    def whole(self, tensor: Tensor) -> Tensor:
        """A tensor of which every process may hold a part; on the CPU, where there are several."""
        tensor = tensor.detach()
        tensor = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        return tensor if self.n == 1 else tensor.cpu()

    def part(self, whole: Tensor | None, like: Tensor) -> Tensor:
        """What this process holds of a tensor that the main one has whole."""
        empty = torch.empty(like.shape, dtype=like.dtype, device=like.device)
        tensor = empty if whole is None else whole.to(like.device, like.dtype, copy=True)
        if isinstance(like, DTensor):
            return distribute_tensor(tensor, like.device_mesh, like.placements)
        if self.n > 1:
            torch.distributed.broadcast(tensor, src=0)
        return tensor

    def unwrapped(self, module: nn.Module) -> nn.Module:
        """The module that was given to `wrap`."""
        return self.accelerator.unwrap_model(module)


def named_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and kept buffers, each once: a parameter that two modules share has the first's name."""
    kept = module.state_dict(keep_vars=True).keys()
    buffers = {name: buffer for name, buffer in module.named_buffers() if name in kept}
    return {**dict(module.named_parameters()), **buffers}
