"""The parameters of a layer's score and normaliser, which the layer trains, moves and saves.

Scores and normalisers are frozen and hold the parameters that they were built with. A layer gets other parameters by
`load_state_dict` with assign=True, `to_empty` or `torch.func.functional_call`, so it asks for its parts at each call.
"""

from torch import nn

from regard.attention.normalise.normaliser import Normaliser
from regard.attention.scores.score import Score
from regard.attention.stages import modules_in, parameters_in, replace_parameters


def held_modules(*parts: Score | Normaliser) -> nn.ModuleList | None:
    """Return the modules that parts hold, such as a RelativeBias; a part that is a module itself needs no such list."""
    modules = [module for part in parts if not isinstance(part, nn.Module) for module in modules_in(part)]
    return nn.ModuleList(modules) if modules else None


def held_parameters(*parts: Score | Normaliser) -> nn.ParameterList | None:
    """Return the parameters that parts hold, such as sinks; the parameters of modules belong to the modules."""
    parameters = [parameter for part in parts for parameter in parameters_in(part)]
    return nn.ParameterList(parameters) if parameters else None


def current_parts(score: Score, normalise: Normaliser, parameters: nn.ParameterList | None) -> tuple[Score, Normaliser]:
    """Return score and normaliser with the layer's present parameters, in the order of `held_parameters`."""
    if parameters is None:
        return score, normalise
    present = iter(parameters)
    return replace_parameters(score, present), replace_parameters(normalise, present)
