"""Registering the parameters of a score and a normaliser with the layer that uses them, which trains and saves them.

Scores and normalisers are frozen dataclasses with the parameters that they were built with. `load_state_dict` with
assign=True, `to_empty` and `torch.func.functional_call` replace the parameters of the layer by others. So the layer
calls `current_parts` before each use, which puts its present parameters into score and normaliser.
"""

from torch import nn

from regard.attention.normalise.normaliser import Normaliser
from regard.attention.scores.score import Score
from regard.attention.stages import modules_in, parameters_in, replace_parameters


def held_modules(*parts: Score | Normaliser) -> nn.ModuleList | None:
    """Return the modules inside a score and a normaliser, such as the RelativeBias of a ScaledDot; None if none.

    A score or normaliser that is a module itself is left out: the layer registers it when it becomes an attribute.
    """
    modules = [module for part in parts if not isinstance(part, nn.Module) for module in modules_in(part)]
    return nn.ModuleList(modules) if modules else None


def held_parameters(*parts: Score | Normaliser) -> nn.ParameterList | None:
    """Return the parameters in fields of a score and a normaliser, such as the sinks of a Softmax; None if none.

    The parameters of modules are left out.
    """
    parameters = [parameter for part in parts for parameter in parameters_in(part)]
    return nn.ParameterList(parameters) if parameters else None


def current_parts(score: Score, normalise: Normaliser, parameters: nn.ParameterList | None) -> tuple[Score, Normaliser]:
    """Return the score and the normaliser with the layer's present parameters in place of those they were built with.

    Args:
        parameters: the layer's present parameters, in the order of `held_parameters`; None = there are none to replace.
    """
    if parameters is None:
        return score, normalise
    present = iter(parameters)
    return replace_parameters(score, present), replace_parameters(normalise, present)
