"""An encoder or decoder as an argument of the C kernels, with the weights of its linear layers as 8-bit integers.

    weight[o, i] ≈ scale[o] · integer[o, i]      scale[o] = max |weight[o]| / 127

The kernels quantise each input vector of a layer in the same way when they compute the layer, with one scale for the
vector. They add up products of integers exactly, in 32 bits; a sum times the two scales, plus the bias, is a float32.
Norms, softmax, activation functions, embeddings, and attention over keys and values are computed in float32.
"""

from dataclasses import replace

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.transformer.decoding.parameters import LinearParameters, StackParameters

OUTPUTS = 16
"""The kernels compute 16 outputs of a quantised layer at a time."""


def quantised_parameters(module: nn.Module) -> StackParameters:
    """Return an encoder or decoder, for which `structure_reason` returns None, with quantised linear layers.

    Its weights are copied: later changes of the module's weights have no effect on them.
    """
    copies: list[Tensor] = []

    def linear_of(layer: nn.Linear | None) -> LinearParameters:
        if layer is None:
            return LinearParameters()
        parameters, tensors = quantised_layer(layer)
        copies.extend(tensors)
        return parameters

    parameters = StackParameters.of_supported(module, linear_of)
    return replace(parameters, storages=(*parameters.storages, *(copy.untyped_storage() for copy in copies)))


def quantised_layer(layer: nn.Linear) -> tuple[LinearParameters, tuple[Tensor, ...]]:
    """Return a linear layer as an argument of the C kernels, with quantised weights, and the tensors it points to."""
    scales, integers = quantise(layer.weight.detach())
    missing = -layer.out_features % OUTPUTS
    integers = F.pad(integers, (0, 0, 0, missing))
    bias, scales = F.pad(layer.bias.detach(), (0, missing)), F.pad(scales, (0, missing))
    by_output = "(blocks outputs) (groups inputs) -> blocks groups outputs inputs"
    packed = rearrange(integers, by_output, outputs=OUTPUTS, inputs=4).contiguous()
    corrections = -128 * integers.sum(dim=1, dtype=torch.int32)  # the kernels add 128 to each quantised input
    pointers = packed.data_ptr(), scales.data_ptr(), corrections.data_ptr()
    parameters = LinearParameters(None, bias.data_ptr(), layer.in_features, layer.out_features, *pointers)
    return parameters, (bias, packed, scales, corrections)


def quantise(
    vectors: Float[Tensor, "vectors numbers"],
) -> tuple[Float[Tensor, " vectors"], Int[Tensor, "vectors numbers"]]:
    """Return a scale for each vector, and integers from -127 to 127 as int8: vector ≈ scale · integers.

    >>> quantise(torch.tensor([[0.5, -1.27, 0.013]]))
    (tensor([0.0100]), tensor([[  50, -127,    1]], dtype=torch.int8))
    """
    scales = vectors.abs().amax(dim=1) / 127
    return scales, (vectors / scales.clamp(min=1e-32)[:, None]).round().to(torch.int8)
