"""A fingerprint of a module, which shows whether a part of the module was replaced since an earlier fingerprint.

Whether the C kernel supports a decoder depends on the classes and attributes of its modules, on their hooks, and on the
addresses, types and shapes of their parameters. A check of all this takes as long as a decoding step; a comparison of
two fingerprints is faster. A change of a parameter's numbers in place, as by an optimiser, is no replacement.
"""

from dataclasses import dataclass, field
from operator import is_
from typing import Any

from torch import nn

CONTENTS = "_parameters", "_modules", "_forward_hooks", "_forward_pre_hooks"
"""The attributes of an `nn.Module` that are dicts whose values are compared too."""


@dataclass(frozen=True, slots=True, eq=False)
class Fingerprint:
    """The parts of a module and of all modules in it.

    Attributes:
        objects: the class of each module, its attributes, parameters, submodules and hooks.
        parameters: the parameters of all modules; a parameter of several modules occurs several times.
        layouts: for each parameter, the address of its numbers, their type, the shape, and whether it is contiguous.
    """

    objects: list[Any] = field(default_factory=list)
    parameters: list[nn.Parameter] = field(default_factory=list)
    layouts: list[Any] = field(default_factory=list)

    @classmethod
    def of(cls, module: nn.Module) -> "Fingerprint":
        fingerprint = cls()
        fingerprint.add(module)
        return fingerprint

    def add(self, module: nn.Module) -> None:
        """Append the parts of a module and of all modules in it."""
        attributes = vars(module)
        self.objects.append(type(module))
        self.objects.extend(attributes.values())
        for name in CONTENTS:
            self.objects.extend(attributes[name].values())
        for one in attributes["_parameters"].values():
            if type(one) is nn.Parameter:
                self.parameters.append(one)
                self.layouts.append((one.data_ptr(), one.dtype, one.shape, one.is_contiguous()))
        for child in attributes["_modules"].values():
            if child is not None:
                self.add(child)

    def same(self, other: "Fingerprint") -> bool:
        """Return whether the objects of both fingerprints are the same, and the layouts equal."""
        equal = len(self.objects) == len(other.objects) and self.layouts == other.layouts
        return equal and all(map(is_, self.objects, other.objects))
