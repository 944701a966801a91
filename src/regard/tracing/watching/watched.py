"""The record of the attention calls that a model made: what `regard.watching` yields."""

from collections.abc import Collection
from dataclasses import dataclass, field

from regard.attention.attend import Attended
from regard.tracing.watching.check import Check, check_contexts


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


@dataclass(slots=True, eq=False, repr=False)
class Watched:
    """The attention calls that a model made inside a `with regard.watching(model)` block.

    Attributes:
        layers: the numbers of the layers whose calls are recorded; None = all layers.
        unseen: by the path of each module whose attention could not be recorded, the reason.
        steps: the recorded attention calls, in order.
    """

    layers: Collection[int] | None = None
    unseen: dict[str, str] = field(default_factory=dict)
    steps: list[WatchedStep] = field(default_factory=list)

    def check(self) -> Check:
        """Recompute every context as weights @ value, and compare it with the context that the model computed.

        The contexts differ if the model applies dropout to the weights: a pattern has the weights before dropout.
        """
        return check_contexts([step.attended for step in self.steps])

    def __repr__(self) -> str:
        modules = {step.path for step in self.steps}
        return f"Watched(steps={len(self.steps)}, modules={len(modules)}, unseen={list(self.unseen)})"
