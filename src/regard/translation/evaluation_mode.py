"""A model in evaluation mode for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from regard.translation.model_protocol import TranslatingModel


@contextmanager
def evaluation_mode(model: TranslatingModel) -> Iterator[None]:
    """Switch every module of a model to evaluation mode, so that dropout is off, and back at the end."""
    in_training = [module for module in model.modules() if module.training] if isinstance(model, nn.Module) else []
    for module in in_training:
        module.training = False
    try:
        yield
    finally:
        for module in in_training:
            module.training = True
