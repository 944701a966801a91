"""The test of one model type: its attention as `regard.watching` and `regard.install` see it, and its own weights."""

from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from generated import generation
from seen_attention import (
    Reference,
    SoftmaxRecorder,
    attentions_of,
    compare_patterns,
    compare_steps,
    inside,
    references,
    run_for_weights,
    tensors_of,
)
from small_inputs import TARGETS, candidate_inputs, padding_mask
from small_models import build, find_ready, first_line, runner
from special_types import REASONS
from torch import Tensor, nn
from verdict import NOT_TRIED, WRONG, install_verdict, watching_verdict

import regard
from regard.tracing.watching.watched import check_contexts

SIDES = "none", "right", "left"


@dataclass
class Trial:
    """The verdicts about a model type, a remark, and the measurements (`details`) from which they follow."""

    type: str
    watching: str = "not tried"
    install: str = "not tried"
    remark: str = ""
    details: dict[str, Any] = field(default_factory=dict)


def try_type(name: str) -> Trial:
    """Test a model type, again in float64 if float32 gives the verdict "wrong", as rounding alone may be the cause."""
    trial = try_once(name)
    if trial.watching == WRONG or trial.install == WRONG:
        torch.set_default_dtype(torch.float64)
        in_float64 = try_once(name)
        if WRONG not in (in_float64.watching, in_float64.install) and in_float64.watching != NOT_TRIED:
            in_float64.details["float64"] = True
            return in_float64
    return trial


def try_once(name: str) -> Trial:
    from transformers import CONFIG_MAPPING

    trial = Trial(name)
    try:
        ready = find_ready(CONFIG_MAPPING[name], name)
    except ValueError as error:  # the configuration names a class that transformers does not have
        ready = [first_line(error)]
    if isinstance(ready, list):
        trial.remark = REASONS.get(name, ready[0])
        trial.details["errors"] = ready
        return trial
    model = ready.model
    trial.details["class"] = ready.model_class.__name__
    all_inputs = {side: dict(list(candidate_inputs(model, side))[ready.choice]) for side in SIDES}
    shapes = {name: list(value.shape) for name, value in all_inputs["none"].items() if isinstance(value, Tensor)}
    trial.details["inputs"] = shapes
    try:
        eager = build(ready.model_class, ready.config, attn_implementation="eager")
        eager.load_state_dict(model.state_dict())
    except Exception as error:
        trial.remark = f"no eager: {first_line(error)}"
        eager = None
    sides = SIDES if "attention_mask" in all_inputs["none"] else SIDES[:1]
    for side in sides:
        watch_once(model, eager, ready.modules, all_inputs[side], side, trial.details.setdefault(side, {}))
    try:
        installed = build(ready.model_class, ready.config)
        installed.load_state_dict(model.state_dict())
        regard.install(installed)
    except regard.InputError as error:
        trial.install = "refused"
        trial.details["install_refusal"] = str(error)
    else:
        for side in sides:
            install_once(installed, model, eager, all_inputs[side], side, trial.details[side])
    if not ready.modules:
        trial.details["generate"] = generation(ready.config)
    trial.watching, watching_remark = watching_verdict(trial.details)
    trial.install, install_remark = install_verdict(trial.details, trial.watching)
    whole = f"tried as a part of `{ready.config.model_type}`" if ready.modules else ""
    trial.remark = "; ".join(filter(None, (whole, watching_remark, install_remark)))
    return trial


def watch_once(
    model: nn.Module, eager: nn.Module | None, modules: list[str], inputs: Any, side: str, details: dict[str, Any]
) -> None:
    """Watch a model with its default attention and with eager attention; write the measurements into `details`.

    Args:
        eager: None = the model has no eager attention.
        modules: the paths of the modules to look at; empty = all modules.
        side: where the inputs are padded: none, right or left.
    """
    run, padding = runner(inputs), padding_mask(side)
    expected: list[Reference] = []
    if eager is not None:
        try:
            expected = of_part(references(run, eager), modules)
            details["own_difference"] = relative_difference(run(model), run(eager), padding)
        except Exception as error:
            details["reference_error"] = first_line(error)
    details["n_references"] = len(expected)
    models = {"default": model} if eager is None else {"default": model, "eager": eager}
    for kind, watched_model in models.items():
        try:
            details[kind] = watched_run(watched_model, run, expected, padding, modules)
        except Exception as error:
            details[kind] = {"error": first_line(error)}


def watched_run(
    model: nn.Module, run: Any, expected: list[Reference], padding: Tensor, modules: list[str]
) -> dict[str, Any]:
    """Run a model within `regard.watching`; return the measurements of some modules; empty = of all modules."""
    plain = run(model)
    with SoftmaxRecorder(model) as recorder:
        run(model)
    with regard.watching(model) as watched:
        output = run(model)
    check = check_contexts([step.attended for step in watched.steps])
    steps, has_equal_bits = of_part(watched.steps, modules), equal_bits(plain, output)
    unseen = {path: reason for path, reason in watched.unseen.items() if belongs(path, modules)}
    softmax_paths = {path for path in recorder.softmax_paths if belongs(path, modules)}
    return {
        "bits": has_equal_bits,
        "repeatable": has_equal_bits or equal_bits(plain, run(model)),
        "steps": len(steps),
        "backends": sorted({step.attended.backend for step in steps}),
        "unseen": unseen,
        "check": check.max_error / max(1.0, check.magnitude),
        "nan": any(bool(tensor.isnan().any()) for tensor in tensors_of(plain) if tensor.is_floating_point()),
        "in_place": any(changed_in_place(step.attended.context) for step in watched.steps),
        "compare": asdict(compare_steps(steps, expected, padding)),
        "softmax_in_unseen": [outer for outer in unseen if any(inside(path, outer) for path in softmax_paths)],
        "softmax_elsewhere": sorted(softmax_paths - {step.path for step in steps} - set(unseen)),
    }


def changed_in_place(context: Tensor) -> bool:
    """Return whether a model changed a context in place; False if it is not known, for tensors of inference mode."""
    return not context.is_inference() and context._version > 0


def of_part(items: list[Any], modules: list[str]) -> list[Any]:
    """Return the steps or references whose modules are in one of `modules`; all of them if `modules` is empty."""
    return [item for item in items if belongs(item.path, modules)]


def belongs(path: str | None, modules: list[str]) -> bool:
    """Return whether the module at `path` is in one of `modules`; True for all modules if `modules` is empty."""
    return not modules or (path is not None and any(inside(path, outer) for outer in modules))


def equal_bits(outputs: Any, other: Any) -> bool:
    """Return whether two outputs have the same numbers; NaN equals NaN."""
    pairs = zip(tensors_of(outputs), tensors_of(other), strict=True)
    return all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in pairs)


def relative_difference(ours: Any, theirs: Any, padding: Tensor) -> float:
    """Return the largest difference for tokens that are not padding, relative to the size of the outputs."""
    pairs = [
        (a.nan_to_num(), b.nan_to_num())
        for a, b in zip(tensors_of(ours), tensors_of(theirs), strict=False)
        if a.shape == b.shape and a.is_floating_point() and a.numel()
    ]
    if not bool(padding.all()):
        of_tokens = [(a, b) for a, b in pairs if a.shape[:2] == padding.shape]
        of_targets = [(a, b) for a, b in pairs if a.ndim == 3 and a.shape[1] == TARGETS]
        pairs = [*((a[padding.bool()], b[padding.bool()]) for a, b in of_tokens), *of_targets]
    return max((float((a - b).abs().max()) / max(1.0, float(b.abs().max())) for a, b in pairs), default=0.0)


def install_once(
    installed: nn.Module, plain: nn.Module, eager: nn.Module | None, inputs: Any, side: str, details: dict[str, Any]
) -> None:
    """Run a model with regard installed, and the model without regard; write the measurements into `details`."""
    entry = details.setdefault("install", {})
    run = runner(inputs)
    try:
        patterns = attentions_of(run_for_weights(run, installed))
    except regard.InputError as error:
        entry["refused"] = str(error)
        return
    except Exception as error:
        try:
            run_for_weights(run, plain)
        except Exception:
            entry["reference_error"] = first_line(error)
        else:
            entry["error"] = first_line(error)
        return
    entry["n_patterns"] = sum(isinstance(pattern, regard.Pattern) for pattern in patterns)
    if eager is not None:
        try:
            theirs = attentions_of(run_for_weights(run, eager))
        except Exception as error:
            entry["reference_error"] = first_line(error)
            return
        entry["n_references"] = len(theirs)
        entry["compare"] = vars(compare_patterns(patterns, theirs, padding_mask(side)))
    entry["output"] = relative_difference(run(installed), run(plain), padding_mask(side))
