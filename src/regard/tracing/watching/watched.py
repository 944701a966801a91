"""The record of a model's attention calls, and a check that weights @ value gives the contexts of the model."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.attention.attend import Attended
from regard.effects.interchange import Interchanged
from regard.errors import InputError


@dataclass(frozen=True, slots=True, eq=False)
class WatchedStep:
    """One recorded attention call (also called attention step) of a watched model.

    Attributes:
        path: the path in the model of the module that made the call, such as "blocks.3.attn"; "" for the model itself.
        layer: the first number in the path, here 3; None if the path has no number.
        call: how many attention calls this module had made before, inside the same `with` block.
        attended: the context that the module computed, and the pattern of the attention weights.
    """

    path: str
    layer: int | None
    call: int
    attended: Attended

    def __repr__(self) -> str:
        return f"WatchedStep({self.path!r}, call={self.call}, {self.attended.pattern!r})"


@dataclass(frozen=True, slots=True)
class Check:
    """The difference between contexts recomputed as weights @ value and the contexts that the model's kernel returned.

    Attributes:
        max_error: the largest absolute difference of a number in any layer; NaN if a context contains NaN.
        magnitude: the largest absolute value in the kernel's contexts; NaN if one of them contains NaN.
        backends: the names of the backends that computed the contexts in the model.
    """

    max_error: float
    magnitude: float
    backends: tuple[str, ...]


@dataclass(slots=True, eq=False, repr=False)
class Watched:
    """The attention calls that a model made inside a `with regard.watching(model)` block.

    Attributes:
        layers: the numbers of the layers whose calls are recorded; None = all layers.
        unseen: why attention could not be recorded, by the path of the module that computes it; the path of the whole
            model is "(the model itself)".
        steps: the recorded attention calls, in order.
    """

    layers: Collection[int] | None = None
    unseen: dict[str, str] = field(default_factory=dict)
    steps: list[WatchedStep] = field(default_factory=list)

    def check(self) -> Check:
        """Recompute every context as weights @ value, and compare it with the context that the model computed.

        The contexts differ if the model applies dropout to the weights: a pattern has the weights before dropout.

        Raises:
            InputError: no attention was recorded.
        """
        if not self.steps:
            why = (
                f"watched.unseen says why {', '.join(map(repr, self.unseen))} could not be recorded"
                if self.unseen
                else "run inside the with block a model that calls one of the functions that regard.watching records"
            )
            raise InputError(f"no attention was recorded, so there is nothing to check; {why}.")
        return check_contexts([step.attended for step in self.steps])

    def __repr__(self) -> str:
        modules = {step.path for step in self.steps}
        return f"Watched(steps={len(self.steps)}, modules={len(modules)}, unseen={list(self.unseen)})"


def check_contexts(calls: Sequence[Attended]) -> Check:
    """Recompute the context of each attention call as weights @ value, and compare it with the recorded context.

    If outputs of heads were replaced by those of another run, compare with `computed`, the context before this.
    """
    contexts = [call.computed if isinstance(call, Interchanged) else call.context for call in calls]
    with torch.no_grad():
        errors = [
            largest_magnitude(call.pattern.apply(call.pattern.value) - context)
            for call, context in zip(calls, contexts, strict=True)
        ]
        sizes = [largest_magnitude(context) for context in contexts]
    return Check(
        max_error=largest_magnitude(torch.tensor(errors)),
        magnitude=largest_magnitude(torch.tensor(sizes)),
        backends=tuple(sorted({call.backend for call in calls})),
    )


def largest_magnitude(numbers: Tensor) -> float:
    return float(numbers.abs().max()) if numbers.numel() else 0.0
