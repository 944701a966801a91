"""Patterns that store only statistics: `regard.trace(…, ask=Ask(…))` and `regard.watching(model, ask=Ask(…))`.

The queries and keys of an attention call are freed as soon as its statistics are computed, so that recording a long
text takes little memory besides that of the model.
"""

from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch import Tensor

from regard.attention.ask import PER_QUERY, Ask, Summary
from regard.attention.attend import Attended
from regard.attention.call import Call
from regard.attention.grid.grid import Grid
from regard.attention.overflow import may_hold_nan
from regard.attention.pattern import Pattern
from regard.attention.progress import ProgressCallback
from regard.errors import InputError

NOT_KEPT = (
    "this pattern has statistics and no single weights, since ask=… keeps no queries and keys; trace or watch again "
    "without ask=…, with layers=[…] if the text is long."
)


class CallWithoutTensors(Call):
    """The sizes, data type and device of an attention call whose tensors, score, mask and normaliser are not stored.

    Attributes:
        nan_in: the first of the names "query", "key" and "value" whose tensor contained NaN; None = no tensor did.
        score_if_unmasked: the score as text, since only calls with equal scores and without masks are joined (see
            `joined_calls.py`); None if the call had a mask.
    """

    __slots__ = ("known_device", "known_dtype", "nan_in", "score_if_unmasked")

    def __init__(
        self,
        grid: Grid,
        weights_dtype: torch.dtype,
        device: torch.device,
        nan_in: str | None = None,
        score_if_unmasked: str | None = None,
    ) -> None:
        fields = ("grid", "known_dtype", "known_device", "nan_in", "score_if_unmasked")
        for name, value in zip(fields, (grid, weights_dtype, device, nan_in, score_if_unmasked), strict=True):
            object.__setattr__(self, name, value)

    @classmethod
    def of_call(cls, call: Call) -> "CallWithoutTensors":
        tensors = ((name, getattr(call, name)) for name in ("query", "key", "value"))
        with_nan = (name for name, tensor in tensors if may_hold_nan(tensor) and bool(tensor.isnan().any()))
        return cls(call.grid, call.weights_dtype, call.device, next(with_nan, None), score_if_unmasked(call))

    @property
    def weights_dtype(self) -> torch.dtype:
        return self.known_dtype

    @property
    def device(self) -> torch.device:
        return self.known_device

    def __getattr__(self, name: str) -> NoReturn:
        """Raise InputError for an attribute that a `Call` has and this object lacks, such as `query`."""
        if name.startswith("_") or not hasattr(Call, name):
            raise AttributeError(f"a call has no attribute {name!r}")
        raise InputError(NOT_KEPT)

    def __reduce__(self) -> tuple[Any, ...]:  # for copy and pickle, which cannot set the fields of a frozen object
        fields = (self.grid, self.known_dtype, self.known_device, self.nan_in, self.score_if_unmasked)
        return CallWithoutTensors, fields


def score_if_unmasked(call: Call) -> str | None:
    """Return the score of a call as text; None if the call had a mask."""
    if isinstance(call, CallWithoutTensors):
        return call.score_if_unmasked
    return repr(call.score) if call.mask is None else None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AnsweredPattern(Pattern):
    """A `Pattern` that stores statistics of its weights in place of queries and keys.

    Its methods return the statistics that were requested before the run; methods that need weights raise InputError.
    """

    call: CallWithoutTensors
    statistics: Summary

    def answer(self, ask: Ask, report: ProgressCallback | None = None) -> Summary:
        """Return the stored statistics that `ask` requests (see `Ask`); none is computed, so `report` is not used."""
        ask.check(self.grid)
        stored = self.statistics
        parts: dict[str, Any] = {name: getattr(stored, name) for name in ("received", *PER_QUERY) if getattr(ask, name)}
        if ask.groups is not None:
            has_groups = stored.ask.groups is not None and torch.equal(stored.ask.groups, ask.groups)
            parts["groups"] = stored.groups if has_groups else None
        if ask.top is not None:
            parts["top"] = None
            if stored.top is not None and stored.top.keys.shape[-1] >= min(ask.top, self.grid.keys):
                parts["top"] = stored.top.resized(ask.top)
        if ask.pooled is not None:
            is_same_pooling = (stored.ask.pooled, stored.ask.reduce) == (ask.pooled, ask.reduce)
            parts["pooled"] = stored.pooled if is_same_pooling else None
        if missing := [argument_text(name, ask) for name, part in parts.items() if part is None]:
            stored_names = ", ".join(statistic_names(stored))
            raise InputError(
                f"this pattern stores {stored_names or 'no statistics'}; its queries and keys were "
                f"not kept; trace or watch again with ask=Ask({', '.join(missing)}, …)."
            )
        return Summary(ask=ask, **parts)

    def __repr__(self) -> str:
        return f"AnsweredPattern({self.grid}, knows={', '.join(statistic_names(self.statistics)) or 'nothing'})"


def answered(attended: Attended, ask: Ask) -> Attended:
    """Return a copy of an attention call that has statistics in place of queries, keys, values and context.

    The context of the result is a tensor on the meta device, which has a shape but no numbers.
    """
    pattern = attended.pattern
    stored = pattern.statistics
    summary = stored if stored is not None and stored.ask is ask else pattern.answer(ask)
    context = torch.empty_like(attended.context, device="meta")
    answered_pattern = AnsweredPattern(CallWithoutTensors.of_call(pattern.call), summary)
    return Attended(context=context, pattern=answered_pattern, backend=attended.backend)


def statistic_names(summary: Summary) -> list[str]:
    return [name for name in summary.__slots__ if name != "ask" and getattr(summary, name) is not None]


def asks_for_something(ask: Ask) -> bool:
    has_flag = any(getattr(ask, name) for name in ("received", *PER_QUERY))
    return has_flag or any(value is not None for value in (ask.groups, ask.top, ask.pooled))


def argument_text(name: str, ask: Ask) -> str:
    """Return the argument of `Ask` that requests the statistic `name`, as it is written in Python, such as "top=8"."""
    value = getattr(ask, name)
    return f"{name}=…" if isinstance(value, Tensor) else f"{name}={value!r}"
