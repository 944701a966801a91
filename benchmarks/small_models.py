"""A small random model of any transformers model type, and inputs with which it runs."""

import copy
import importlib
import inspect
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from time import process_time
from typing import Any

import torch
from seen_attention import SoftmaxRecorder, tensors_of
from small_config import shrink
from small_inputs import candidate_inputs, parts_of
from special_types import CLASSES, VALUES
from torch import Tensor, nn


def model_classes(config_class: type) -> list[type]:
    """Return the model classes of a configuration class, the base model without a head first."""
    import transformers
    from transformers import MODEL_MAPPING, PreTrainedModel

    if config_class.__name__ in CLASSES:
        return [getattr(transformers, CLASSES[config_class.__name__])]
    try:
        mapped = MODEL_MAPPING.get(config_class, ())
    except ValueError:  # the mapping names a class that transformers does not have
        mapped = ()
    base_models = list(mapped) if isinstance(mapped, tuple) else [mapped]
    try:
        module = importlib.import_module(config_class.__module__.replace(".configuration_", ".modeling_"))
    except ImportError:
        return base_models
    models = [
        cls
        for _, cls in inspect.getmembers(module, inspect.isclass)
        if issubclass(cls, PreTrainedModel)
        and getattr(cls, "config_class", None) is config_class
        and not cls.__name__.endswith("PreTrainedModel")
        and "forward" in vars(cls)
    ]
    models.sort(key=lambda cls: (not cls.__name__.endswith("Model"), "For" in cls.__name__, len(cls.__name__)))
    return [*base_models, *(cls for cls in models if cls not in base_models)]


def wholes_of(config_class: type) -> Iterator[Any]:
    """Yield the configuration classes of the same module that contain a configuration of this class and have models."""
    from transformers import PreTrainedConfig

    module = importlib.import_module(config_class.__module__)
    for _, whole in inspect.getmembers(module, inspect.isclass):
        if not issubclass(whole, PreTrainedConfig) or whole is config_class or not model_classes(whole):
            continue
        if config_class in {type(part) for part in all_parts(whole())}:
            yield whole


def all_parts(config: Any) -> Iterator[Any]:
    for part in parts_of(config):
        yield part
        yield from all_parts(part)


def modules_of(config_class: type, model: nn.Module) -> list[str]:
    """Return the paths of the modules whose config is of this class, or whose class name begins like the config's."""
    name = config_class.__name__.removesuffix("Config")
    return [
        path
        for path, module in model.named_modules()
        if type(module).__name__.startswith(name) or isinstance(getattr(module, "config", None), config_class)
    ]


def configs(config_class: Any, name: str) -> Iterator[Any]:
    """Yield small configurations of a class, the smallest first; or the exception, if one cannot be made."""
    try:
        default = config_class()
    except Exception:
        default = config_class(**VALUES.get(name, {}))
    for sizes, derive in ((True, False), (False, False), (True, True), (False, True)):
        try:
            values = merged(shrink(default, sizes=sizes, derive=derive), VALUES.get(name, {}))
            values.pop("model_type", None)
            yield config_class.from_dict(values)
        except Exception as error:
            yield error
    try:
        yield config_class(**VALUES.get(name, {}))
    except Exception as error:
        yield error


def merged(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Update a dict, and the dicts inside it."""
    result = dict(values)
    for name, value in changes.items():
        both_are_dicts = isinstance(value, dict) and isinstance(result.get(name), dict)
        result[name] = merged(result[name], value) if both_are_dicts else value
    return result


def build(model_class: Any, config: Any, **options: Any) -> nn.Module:
    model = model_class._from_config(copy.deepcopy(config), **options).eval()
    return model.to(torch.get_default_dtype())


SECONDS_TO_FIND = 8
"""CPU time after which no further configuration is tried."""

MOST_PARAMETERS = 400_000_000


def check_small(model_class: Any, config: Any) -> None:
    with torch.device("meta"):
        model = model_class(copy.deepcopy(config))
    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    if n_parameters > MOST_PARAMETERS:
        raise ValueError(f"{n_parameters / 1e6:.0f} million parameters are too many to try")


@torch.no_grad()
def sharpen(model: nn.Module) -> None:
    """Fill every matrix with seeded random numbers, so large that attention weights are far from uniform."""
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        if parameter.ndim >= 2 and parameter.numel():
            fan_in = math.prod(parameter.shape[1:])
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * min(1.0, 1.4 / math.sqrt(fan_in)))
        elif not bool(parameter.isfinite().all()):
            parameter.zero_()


@dataclass
class Ready:
    """A small model that runs.

    Attributes:
        choice: the index of the inputs with which it runs, among those that `candidate_inputs` yields.
        modules: the paths of the modules that belong to the tested type; empty = all modules.
    """

    model_class: Any
    config: Any
    model: nn.Module
    choice: int
    modules: list[str] = field(default_factory=list)


def find_ready(config_class: type, name: str) -> Ready | list[str]:
    """Return the first model of a type that can be built and run, or a model that contains one; else the errors."""
    own = find_own(config_class, name)
    if isinstance(own, Ready):
        return own
    errors = own
    for whole in wholes_of(config_class):
        containing = find_own(whole, whole.model_type, config_class)
        if isinstance(containing, Ready):
            return containing
        errors += [f"in {whole.model_type}: {error}" for error in containing]
    return errors


def find_own(config_class: type, name: str, part: type | None = None) -> Ready | list[str]:
    """Return the first model of a configuration class that can be built and run, else the errors.

    Args:
        part: the configuration class of a part of the model that must run too; None = no condition.
    """
    errors: list[str] = []
    candidates = list(configs(config_class, name))
    end = process_time() + SECONDS_TO_FIND
    for model_class in model_classes(config_class)[:4]:
        first_errors: list[str] = []  # with the first candidate for the inputs, for each configuration
        for config in candidates:
            has_same_error = len(first_errors) > 1 and first_errors[-1] == first_errors[-2]
            if has_same_error or process_time() > end:
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
            modules = modules_of(part, model) if part is not None else []
            if part is not None and not modules:
                errors.append(f"{model_class.__name__} has no such part")
                break
            choice, input_errors = choose_inputs(model, modules, end)
            if choice is not None:
                return Ready(model_class, config, model, choice, modules)
            errors += [f"{model_class.__name__}({names}): {error}" for names, error in input_errors.values()]
            if 0 in input_errors:
                first_errors.append(input_errors[0][1])
    return errors or ["no model class of its own" if not model_classes(config_class) else "no inputs fit"]


def choose_inputs(model: nn.Module, modules: list[str], end: float) -> tuple[int | None, dict[int, tuple[str, str]]]:
    """Run a model on each candidate for its inputs, until it computes a softmax or the CPU time is `end`.

    Args:
        modules: the paths of modules of which one must run; empty = no condition.

    Returns:
        The index of the candidate with a softmax, else of the first that runs, or None; and for each candidate that
        fails, by its index, the names of the inputs and the error.
    """
    without_softmax: int | None = None
    errors: dict[int, tuple[str, str]] = {}
    for number, inputs in enumerate(candidate_inputs(model, "none")):
        if process_time() > end:
            break
        try:
            with SoftmaxRecorder(model) as recorder:
                outputs = runner(inputs)(model)
        except Exception as error:
            errors[number] = ", ".join(inputs), first_line(error)
            continue
        if not list(tensors_of(outputs)) or (modules and not recorder.called_paths.intersection(modules)):
            continue
        if recorder.softmax_paths:
            return number, errors
        if without_softmax is None:
            without_softmax = number
    return without_softmax, errors


def runner(inputs: dict[str, Any]) -> Any:
    dtype = torch.get_default_dtype()
    inputs = {
        name: value.to(dtype) if isinstance(value, Tensor) and value.is_floating_point() else value
        for name, value in inputs.items()
    }

    def run(model: nn.Module, **options: Any) -> Any:
        torch.manual_seed(0)
        with torch.no_grad():
            return model(**copy.deepcopy(inputs), **options)

    return run


def first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
