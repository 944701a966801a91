"""Tests of the reprs of scores, masks and normalisers: the class, and only the values that are not the default."""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.attention.representation import describe


@dataclass
class Part:
    """A part with defaults."""

    needed: int
    number: float = 0.5
    maybe: Tensor | int | None = None


def test_only_what_is_not_its_default_is_said():
    assert describe(Part(3)) == "Part(needed=3)"
    assert describe(Part(0, 0.5, None)) == "Part(needed=0)"
    assert describe(Part(3, number=2.0)) == "Part(needed=3, number=2.0)"
    assert describe(Part(3, maybe=0)) == "Part(needed=3, maybe=0)"


def test_tensors_are_said_by_type_and_shape():
    assert describe(Part(3, maybe=torch.zeros(2, 5))) == "Part(needed=3, maybe=<float32 [2, 5]>)"
    assert describe(Part(3, maybe=torch.tensor(True))) == "Part(needed=3, maybe=<bool []>)"
