"""The processes that train together, on one machine or several, through Accelerate; one alone is the usual case.

    regard train …                                             one process
    torchrun --nproc-per-node 2 $(which regard) train …        two; `accelerate launch` does as well

All take the same batches in the same order and each works through its share of the rows, with draws of dropout of its
own, so that a training without dropout is the same whatever their number; and whether each has the whole model or
they share it out changes nothing. Only the first, `main`, writes files and speaks. When one is lost, all end.
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

from regard.errors import InputError, needs
from regard.training.processes.heartbeat import Lifelines
from regard.training.processes.sharding import is_shared_out, part_from_main, shard, unexchanged, whole
from regard.training.settings.config import Precision

ADAM = ("step", "exp_avg", "exp_avg_sq")
"""What AdamW keeps of a parameter."""

FSDP = "ACCELERATE_USE_FSDP"
"""The environment's variable by which `accelerate launch` hands on that its config asks for FSDP."""

OTHER_WAYS = {"ACCELERATE_USE_DEEPSPEED": "DeepSpeed", "ACCELERATE_USE_MEGATRON_LM": "Megatron-LM"}
"""What Accelerate's config may ask for and regard does not do."""

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True)
class Processes:
    """The processes that train together, as one of them sees them."""

    accelerator: Any
    asked_to_shard: bool = False
    """By Accelerate's config, where the settings leave it open."""

    lifelines: Lifelines | None = None
    """None = there are no others."""

    @classmethod
    def start(cls, device: torch.device, precision: Precision) -> "Processes":
        """Meet the other processes, if a launcher started any.

        Raises:
            InputError: Accelerate's config asks for what regard does not do, another process does not come, or a
                launcher has shared the devices out and this one is to be another.
        """
        refuse_other_ways()
        numbered = device.type == "cuda" and device.index is not None
        if numbered:
            torch.cuda.set_device(device)  # which Accelerate takes, unless a launcher has shared the devices out
        accelerate = needs("accelerate", "translation")
        asked_to_shard = os.environ.pop(FSDP, "false").lower() == "true"  # we see to it, on a CPU as well
        patience = needs("accelerate.utils", "translation").InitProcessGroupKwargs(timeout=timedelta(days=7))
        met = cls(
            accelerate.Accelerator(
                cpu=device.type == "cpu",
                mixed_precision="bf16" if precision == "bfloat16" else "no",
                kwargs_handlers=[patience],
            ),
            asked_to_shard,
        )
        if numbered and (met.n > 1 or met.device.index not in (None, device.index)):
            raise InputError(
                f"{device} is one device, and a launcher gives every process its own; give --device cuda, and say "
                "which devices there are to share out with CUDA_VISIBLE_DEVICES."
            )
        return met if met.n == 1 else replace(met, lifelines=Lifelines.open(met.rank, met.n, met.from_main))

    def __enter__(self) -> "Processes":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Part from the others.

        Raises:
            LostError: in place of the failed exchange with one that is gone.
        """
        if self.lifelines is None:
            return
        try:
            if error is None:
                self.lifelines.goodbye()
            elif isinstance(error, RuntimeError):  # what torch.distributed raises
                self.lifelines.refuse_lost()
        finally:
            self.lifelines.close()

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

    def wrap(self, module: nn.Module, share_out: bool | None) -> nn.Module:
        """A module ready to be used by all of them together, on their devices; its optimiser is to be made after.

        Args:
            module: the same in all of them.
            share_out: each gets a part of it, not all; None = as Accelerate's config says.
        """
        if self.n == 1 or not (self.asked_to_shard if share_out is None else share_out):
            return self.accelerator.prepare_model(module)
        return self.accelerator.prepare_model(shard(module, self.device, self.n), evaluation_mode=True)

    def together(self, module: nn.Module, exchanged: bool) -> AbstractContextManager[None]:
        """Where gradients are exchanged after the backward pass, or only added up here."""
        if exchanged or self.n == 1:
            return nullcontext()
        return unexchanged(module) if is_shared_out(module) else self.accelerator.no_sync(module)

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

    def from_main(self, numbers: list[Number]) -> list[Number]:
        """The main process's numbers, all of one type, to all of them."""
        if self.n == 1:
            return numbers
        exact = torch.float64 if isinstance(numbers[0], float) else torch.int64
        return self.total(torch.tensor(numbers, dtype=exact, device=self.device) * self.is_main).tolist()

    def parameters(self, module: nn.Module) -> dict[str, Tensor]:
        """All parameters and buffers, each whole and under one name; for the main process, the others get none."""
        return self.gathered(named_tensors(self.unwrapped(module)))

    def optimiser_tensors(self, module: nn.Module, optimiser: Optimizer) -> dict[str, Tensor]:
        """All tensors of the optimiser, each whole, by the parameter's name and their own: `encoder.bias:exp_avg`.

        For the main process; the others get none.
        """
        named, state = self.unwrapped(module).named_parameters(), optimiser.state
        return self.gathered({f"{name}:{key}": tensor for name, p in named for key, tensor in state[p].items()})

    def gathered(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Tensors put together in the main process, one after the other; on the CPU, where there are several."""
        if self.n == 1:
            return {name: tensor.detach() for name, tensor in tensors.items()}
        found = {}
        for name, tensor in tensors.items():
            put_together = whole(tensor)  # all must ask
            if self.is_main:
                found[name] = put_together.cpu()
        return found

    def restore(
        self,
        module: nn.Module,
        optimiser: Optimizer,
        parameters: Mapping[str, Tensor],
        optimiser_tensors: Mapping[str, Tensor],
    ) -> None:
        """Put back what `parameters` and `optimiser_tensors` gave; the main process has them, the others none.

        Raises:
            InputError: they are another model's.
        """
        inner, given = self.unwrapped(module), {**parameters, **optimiser_tensors}
        with torch.no_grad():
            for name, tensor in named_tensors(inner).items():
                tensor.copy_(self.part(given, name, tensor))
        for name, parameter in inner.named_parameters():
            for key in ADAM:
                like = torch.zeros((), device=parameter.device) if key == "step" else parameter
                optimiser.state[parameter][key] = self.part(given, f"{name}:{key}", like)

    def part(self, given: Mapping[str, Tensor], name: str, like: Tensor) -> Tensor:
        """What this process holds of a tensor that the main one has whole, among others by name.

        Raises:
            InputError: the main one does not have it, or in another shape.
        """
        if self.is_main:
            tensor = given.get(name)
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
        """The module that was given to `wrap`."""
        return self.accelerator.unwrap_model(module)


def named_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and kept buffers, each once: a parameter that two modules share has the first's name."""
    kept = module.state_dict(keep_vars=True).keys()
    buffers = {name: buffer for name, buffer in module.named_buffers() if name in kept}
    return {**dict(module.named_parameters()), **buffers}


def refuse_other_ways() -> None:
    """Refuse what Accelerate's config may ask for and regard would not do.

    Raises:
        InputError: it asks for it.
    """
    for variable, name in OTHER_WAYS.items():
        if os.environ.get(variable, "false").lower() == "true":
            raise InputError(
                f"Accelerate's config asks for {name}, and regard does DDP and FSDP alone; "
                "run `accelerate config` anew, or use torchrun."
            )
