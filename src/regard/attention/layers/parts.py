"""Functions that register the parameters of a score and a normaliser with the attention layer that contains them.

A registered parameter is trained, moved to a device and saved with the layer. A score or normaliser is a frozen
dataclass, which keeps the parameters that it was built with. But load_state_dict with assign=True, `to_empty` and
`torch.func.functional_call` replace the registered parameters of the layer by new tensors. Before each use, the layer
therefore calls `current_parts`, which returns copies of score and normaliser with the present parameters of the layer.
"""

from torch import nn

from regard.attention.normalise.normaliser import Normaliser
from regard.attention.scores.score import Score
from regard.attention.stages import modules_in, parameters_in, replace_parameters


def held_modules(*parts: Score | Normaliser) -> nn.ModuleList | None:
    """Return the modules in fields of a score or a normaliser, such as a `RelativeBias`; None if there are no modules.

    A score or normaliser that is itself a module is left out: the layer has it as an attribute, and nn.Module registers
    such a module.
    """
    modules = [module for part in parts if not isinstance(part, nn.Module) for module in modules_in(part)]
    return nn.ModuleList(modules) if modules else None


def held_parameters(*parts: Score | Normaliser) -> nn.ParameterList | None:
    """Return the parameters in fields of a score or a normaliser, such as `Softmax.sinks`; None if there are none.

    Parameters inside modules are left out, since they are registered with their module.
    """
    parameters = [parameter for part in parts for parameter in parameters_in(part)]
    return nn.ParameterList(parameters) if parameters else None


def current_parts(score: Score, normalise: Normaliser, parameters: nn.ParameterList | None) -> tuple[Score, Normaliser]:
    """Return copies of a score and a normaliser whose parameters are the present parameters of the attention layer.

    Args:
        parameters: the parameters of the layer, in the order in which `held_parameters` returned them; None = the score
            and the normaliser have no parameters, and are returned unchanged.
    """
    if parameters is None:
        return score, normalise
    present = iter(parameters)
    return replace_parameters(score, present), replace_parameters(normalise, present)
