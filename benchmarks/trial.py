"""One model type: build a small random model, look at its attention in both ways, and compare with its own weights."""

import copy
import importlib
import inspect
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from time import monotonic
from typing import Any

import torch
from seen_attention import (
    Reference,
    SoftmaxCounter,
    attentions_of,
    compare_patterns,
    compare_steps,
    references,
    run_for_weights,
    tensors_of,
)
from small_config import shrink
from small_inputs import choices, padding_mask
from torch import Tensor, nn
from verdict import NOT_TRIED, WRONG, install_verdict, watching_verdict

import regard

TIME_SERIES = {"prediction_length": 8, "context_length": 24, "lags_sequence": [1, 2, 3], "num_time_features": 1}
HEAD = {"head_dim": 32}
ROPE_BY_KIND = {
    "rope_parameters": {
        "full_attention": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [6, 5, 5]},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [6, 5, 5]},
    }
}

SPECIAL: dict[str, dict[str, Any]] = {
    "autoformer": TIME_SERIES,
    "bamba": {"attn_layer_indices": [1]},
    "blt": {"encoder_hash_byte_group_vocab": 100},
    "chameleon": {"vocabulary_map": {"<image>": 99, "IMGIMGAZ": 98}},
    "cohere_compass": {"text_config": ROPE_BY_KIND},
    "cohere_compass_text": ROPE_BY_KIND,
    "dbrx": {"attn_config": {"rope_theta": 10000.0, "clip_qkv": 8.0}},
    "deepseek_ocr2": {"text_config": {"mlp_layer_types": ["dense", "sparse"]}},
    "deepseek_ocr2_text": {"mlp_layer_types": ["dense", "sparse"]},
    "dots1": {"n_routed_experts": 4},
    "efficientnet": {"hidden_dim": 1280 * 2},
    "emu3": {"vocabulary_map": {"<image>": 99, "<|visual token 000001|>": 98}},
    "falcon_h1": {"mamba_d_ssm": 256, "mamba_n_heads": 4, "mamba_d_head": 64},
    "glm5_next": {"text_config": {"index_topk": 16}},
    "glm5_next_text": {"index_topk": 16},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"]},
    "hunyuan_v1_dense": HEAD,
    "hunyuan_v1_moe": HEAD,
    "hunyuan_vl": {"text_config": HEAD},
    "hunyuan_vl_text": HEAD,
    "informer": TIME_SERIES,
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "llama4_vision_model": {"intermediate_size": 512, "projector_input_dim": 128, "projector_output_dim": 128},
    "mamba2": {"num_heads": 8, "head_dim": 32, "hidden_size": 128, "expand": 2},
    "ministral": HEAD,
    "moonshine_streaming": {"num_key_value_heads": 4},
    "nemotron": {"num_key_value_heads": 2, "head_dim": 32},
    "nystromformer": {"num_landmarks": 8, "segment_means_seq_len": 40},
    "recurrent_gemma": {"block_types": ["recurrent", "attention"]},
    "time_series_transformer": TIME_SERIES,
    "xmod": {"default_language": "en_XX"},
}
"""Values of single types that no rule finds."""

SIDES = "none", "right", "left"


@dataclass
class Trial:
    """What was seen of a model type."""

    type: str
    watching: str = "not tried"
    install: str = "not tried"
    remark: str = ""
    details: dict[str, Any] = field(default_factory=dict)


def model_classes(config_class: type) -> list[type]:
    """Return the model classes of a configuration, the plain model first."""
    from transformers import MODEL_MAPPING, PreTrainedModel

    known = MODEL_MAPPING.get(config_class, None) if config_class in MODEL_MAPPING else None
    first = list(known) if isinstance(known, tuple) else [known] if known else []
    try:
        module = importlib.import_module(config_class.__module__.replace(".configuration_", ".modeling_"))
    except ImportError:
        return first
    others = [
        cls
        for _, cls in inspect.getmembers(module, inspect.isclass)
        if issubclass(cls, PreTrainedModel)
        and getattr(cls, "config_class", None) is config_class
        and not cls.__name__.endswith("PreTrainedModel")
        and "forward" in vars(cls)
    ]
    others.sort(key=lambda cls: (not cls.__name__.endswith("Model"), "For" in cls.__name__, len(cls.__name__)))
    return [*first, *(cls for cls in others if cls not in first)]


def configs(config_class: Any, name: str) -> Iterator[Any]:
    """Yield small configurations, the smallest first; in place of one that cannot be made, its error."""
    for sizes, derive in ((True, False), (False, False), (True, True), (False, True)):
        try:
            values = merged(shrink(config_class(), sizes=sizes, derive=derive), SPECIAL.get(name, {}))
            values.pop("model_type", None)
            yield config_class.from_dict(values)
        except Exception as error:
            yield error
    try:
        yield config_class(**SPECIAL.get(name, {}))
    except Exception as error:
        yield error


def merged(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return values with changes, also inside of parts."""
    result = dict(values)
    for name, value in changes.items():
        inner = isinstance(value, dict) and isinstance(result.get(name), dict)
        result[name] = merged(result[name], value) if inner else value
    return result


def build(model_class: Any, config: Any, **options: Any) -> nn.Module:
    model = model_class._from_config(copy.deepcopy(config), **options).eval()
    return model.to(torch.get_default_dtype())


SECONDS_TO_FIND = 12
"""After this time no further configuration is tried."""

MOST_PARAMETERS = 400_000_000


def check_small(model_class: Any, config: Any) -> None:
    """Raise ValueError if a model has too many parameters to be tried."""
    with torch.device("meta"):
        model = model_class(copy.deepcopy(config))
    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    if n_parameters > MOST_PARAMETERS:
        raise ValueError(f"{n_parameters / 1e6:.0f} million parameters are too many to try")


@torch.no_grad()
def sharpen(model: nn.Module) -> None:
    """Give every matrix random numbers so large that attention is sharp."""
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        if parameter.ndim >= 2:
            fan_in = math.prod(parameter.shape[1:])
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * min(1.0, 1.4 / math.sqrt(fan_in)))
        elif not bool(parameter.isfinite().all()):
            parameter.zero_()


def runner(inputs: dict[str, Any]) -> Any:
    dtype = torch.get_default_dtype()
    inputs = {k: v.to(dtype) if isinstance(v, Tensor) and v.is_floating_point() else v for k, v in inputs.items()}

    def run(model: nn.Module, **options: Any) -> Any:
        torch.manual_seed(0)
        with torch.no_grad():
            return model(**inputs, **options)

    return run


def first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


@dataclass
class Ready:
    """A model that runs, and the number of its inputs among the choices."""

    model_class: Any
    config: Any
    model: nn.Module
    choice: int


def find_ready(config_class: type, name: str) -> Ready | list[str]:
    """Return the first model of a type that can be built and run, else the errors."""
    errors: list[str] = []
    built = list(configs(config_class, name))
    idle: Ready | None = None
    started = monotonic()
    for model_class in model_classes(config_class)[:4]:
        first_errors: list[str] = []
        for config in built:
            if len(first_errors) > 1 and first_errors[-1] == first_errors[-2]:
                break
            if monotonic() - started > SECONDS_TO_FIND:
                break
            if isinstance(config, Exception):
                errors.append(f"config: {first_line(config)}")
                continue
            try:
                check_small(model_class, config)
                model = build(model_class, config)
                sharpen(model)
            except Exception as error:
                errors.append(f"{model_class.__name__}: {first_line(error)}")
                continue
            for number, inputs in enumerate(choices(model, "none")):
                if monotonic() - started > SECONDS_TO_FIND:
                    break
                try:
                    with SoftmaxCounter(model) as counter:
                        outputs = runner(inputs)(model)
                    if not list(tensors_of(outputs)):
                        continue
                    ready = Ready(model_class, config, model, number)
                    if counter.found:
                        return ready
                    idle = idle or ready
                except Exception as error:
                    errors.append(f"{model_class.__name__}({', '.join(inputs)}): {first_line(error)}")
                    if number == 0:
                        first_errors.append(first_line(error))
            if idle is not None:
                break
        if idle is not None:
            return idle
    return errors or ["no model class of its own" if not model_classes(config_class) else "no inputs fit"]


def try_type(name: str) -> Trial:
    """Return what regard sees of a model type; with float64 where float32 is not exact enough to tell."""
    trial = try_once(name)
    if trial.watching == WRONG or trial.install == WRONG:
        torch.set_default_dtype(torch.float64)
        again = try_once(name)
        if WRONG not in (again.watching, again.install) and again.watching != NOT_TRIED:
            again.details["float64"] = True
            return again
    return trial


def try_once(name: str) -> Trial:
    from transformers import CONFIG_MAPPING

    trial = Trial(name)
    config_class = CONFIG_MAPPING[name]
    ready = find_ready(config_class, name)
    if isinstance(ready, list):
        trial.remark = ready[0]
        trial.details["errors"] = ready
        return trial
    model = ready.model
    trial.details["class"] = ready.model_class.__name__
    all_inputs = {side: dict(list(choices(model, side))[ready.choice]) for side in SIDES}
    trial.details["inputs"] = {k: list(v.shape) for k, v in all_inputs["none"].items() if isinstance(v, Tensor)}
    try:
        eager = build(ready.model_class, ready.config, attn_implementation="eager")
        eager.load_state_dict(model.state_dict())
    except Exception as error:
        trial.remark = f"no eager: {first_line(error)}"
        eager = None
    sides = SIDES if "attention_mask" in all_inputs["none"] else SIDES[:1]
    for side in sides:
        watch_once(model, eager, all_inputs[side], side, trial.details.setdefault(side, {}))
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
    trial.watching, remark = watching_verdict(trial.details)
    trial.install, more = install_verdict(trial.details, trial.watching)
    trial.remark = "; ".join(filter(None, (remark, more)))
    return trial


def watch_once(model: nn.Module, eager: nn.Module | None, inputs: Any, side: str, details: dict[str, Any]) -> None:
    """Watch a model with its default attention and with eager attention; put what was measured into `details`."""
    run, padding = runner(inputs), padding_mask(side)
    expected: list[Reference] = []
    if eager is not None:
        try:
            expected = references(run, eager)
            details["own_difference"] = relative_difference(run(model), run(eager), padding)
        except Exception as error:
            details["reference_error"] = first_line(error)
    details["n_references"] = len(expected)
    for kind, one in (("default", model), ("eager", eager)):
        if one is None:
            continue
        try:
            details[kind] = watched_run(one, run, expected, padding)
        except Exception as error:
            details[kind] = {"error": first_line(error)}


def watched_run(model: nn.Module, run: Any, expected: list[Reference], padding: Tensor) -> dict[str, Any]:
    """Return what was measured of one watched run."""
    plain = run(model)
    with SoftmaxCounter(model) as counter:
        run(model)
    with regard.watching(model) as watched:
        output = run(model)
    check = watched.check()
    seen = {step.path for step in watched.steps} | set(watched.unseen)
    equal = equal_bits(plain, output)
    return {
        "bits": equal,
        "repeatable": equal or equal_bits(plain, run(model)),
        "steps": len(watched.steps),
        "backends": sorted({step.attended.backend for step in watched.steps}),
        "unseen": watched.unseen,
        "check": check.max_error / max(1.0, check.magnitude),
        "nan": any(bool(part.isnan().any()) for part in tensors_of(plain) if part.is_floating_point()),
        "in_place": any(step.attended.context._version > 0 for step in watched.steps),
        "compare": asdict(compare_steps(watched.steps, expected, padding)),
        "softmax_in_unseen": [path for path in watched.unseen if any(inside(f, path) for f in counter.found)],
        "softmax_elsewhere": sorted(counter.found - seen),
    }


def equal_bits(some: Any, other: Any) -> bool:
    """Return whether two outputs have the same numbers; NaN equals NaN."""
    pairs = zip(tensors_of(some), tensors_of(other), strict=True)
    return all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in pairs)


def inside(path: str, outer: str) -> bool:
    """Return whether a module is another one, or a part of it."""
    return path == outer or path.startswith(f"{outer}.")


def relative_difference(ours: Any, theirs: Any, padding: Tensor) -> float:
    """Return the largest difference between two outputs for tokens that are not padding, relative to their size."""
    pairs = [
        (a.nan_to_num(), b.nan_to_num())
        for a, b in zip(tensors_of(ours), tensors_of(theirs), strict=False)
        if a.shape == b.shape and a.is_floating_point() and a.numel()
    ]
    if not bool(padding.all()):
        of_tokens = [(a, b) for a, b in pairs if a.shape[:2] == padding.shape]
        pairs = [(a[padding.bool()], b[padding.bool()]) for a, b in of_tokens]
    return max((float((a - b).abs().max()) / max(1.0, float(b.abs().max())) for a, b in pairs), default=0.0)


def install_once(
    model: nn.Module, plain: nn.Module, eager: nn.Module | None, inputs: Any, side: str, details: dict[str, Any]
) -> None:
    entry = details.setdefault("install", {})
    run = runner(inputs)
    try:
        outputs = run_for_weights(run, model)
        patterns = attentions_of(outputs)
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
    entry["n_patterns"] = sum(isinstance(p, regard.Pattern) for p in patterns)
    if eager is not None:
        try:
            theirs = attentions_of(run_for_weights(run, eager))
        except Exception as error:
            entry["reference_error"] = first_line(error)
            return
        entry["n_references"] = len(theirs)
        entry["compare"] = vars(compare_patterns(patterns, theirs, padding_mask(side)))
    ours = run(model)
    entry["output"] = relative_difference(ours, run(plain), padding_mask(side))
