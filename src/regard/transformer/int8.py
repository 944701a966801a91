"""A Transformer that translates with 8-bit integers as weights: faster if the weights do not fit into the CPU cache.

    weight[o, i] ≈ scale[o] · integer[o, i]      scale[o] = max |weight[o]| / 127

When the kernels compute a linear layer, they quantise each of its input vectors in the same way, with one scale. They
add up products of integers exactly, in 32 bits. An output, a float32, is this sum times the two scales, plus the bias.
Norms, softmax, activation functions, embeddings, and attention over keys and values are computed in float32.
"""

from dataclasses import replace

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.errors import InputError
from regard.kernels.library import c_function
from regard.transformer.decoder import Decoder
from regard.transformer.decoding.kernel import CompiledDecoding
from regard.transformer.decoding.parameters import KernelModule, LinearParameters
from regard.transformer.decoding.supported import unsupported_reason
from regard.transformer.encoder import Encoder
from regard.transformer.model import Transformer

OUTPUTS_OF_BLOCK, INPUTS_OF_GROUP = 16, 4
"""The kernels store the integers in blocks of 16 outputs and groups of 4 inputs."""


class Int8Transformer(Transformer):
    """A Transformer whose C kernels compute linear layers with 8-bit integers.

    `Int8Transformer(model)` shares the modules and parameters of `model`, a Transformer, and puts them into evaluation
    mode. Only `compiled_decoding`, which every search for translations calls, uses integers; `forward`, `start` and
    `step` compute in float32. If a source has more than 512 tokens, or the encoder's positions are rotary, the encoder
    and the keys and values of cross-attention are computed in float32, too.

    Raises:
        InputError: the C kernels do not support the model, it is not on a CPU, or no kernels were built.
    """

    def __init__(self, model: object) -> None:
        nn.Module.__init__(self)  # Transformer.__init__ would make new modules
        if type(model) is not Transformer:
            raise InputError(f"int8 needs a Transformer, and the model is a {type(model).__name__}; leave int8 out.")
        self.config, self.encoder, self.decoder = model.config, model.encoder, model.decoder
        self.eval()
        if reason := int8_unsupported_reason(model):
            raise InputError(f"int8 does not support this model: {reason}; leave int8 out.")
        self.quantised = quantised_parameters(self.encoder), quantised_parameters(self.decoder)

    def compiled_decoding(
        self, source: Int[Tensor, "batch source"], lengths: Int[Tensor, " batch"], *, most_rows: int, most_tokens: int
    ) -> CompiledDecoding:
        encoder, decoder = self.quantised
        if most_tokens > decoder.embedding.n_positions:
            raise ValueError(
                f"most_tokens={most_tokens} is above the model's {decoder.embedding.n_positions} positions; int8 "
                "decodes at most as many tokens."
            )
        state = self._encode_and_start(source, lengths, encoder, decoder)
        return CompiledDecoding(decoder, state.sources, state.lengths, most_rows=most_rows, most_tokens=most_tokens)


def int8_unsupported_reason(model: Transformer) -> str | None:
    """Return why a Transformer in evaluation mode cannot decode with 8-bit integers; None if it can."""
    if (device := model.to_logits.weight.device).type != "cpu":
        return f"it is on the device {device}, and the kernels for 8-bit integers run on cpu"
    if type(model.encoder) is not Encoder or type(model.decoder) is not Decoder:
        return "its encoder or decoder is not the standard one"
    if c_function("regard_decoding_step") is None:
        return "no C kernels were built when regard was installed"
    return unsupported_reason(model.encoder) or unsupported_reason(model.decoder)


def quantised_parameters(module: Encoder | Decoder) -> KernelModule:
    """Return an encoder or decoder with quantised weights; the kernels must support it (see `unsupported_reason`)."""
    copies: list[Tensor] = []

    def linear_of(layer: nn.Linear) -> LinearParameters:
        parameters, tensors = quantised_layer(layer)
        copies.extend(tensors)
        return parameters

    parameters = KernelModule.of_supported(module, linear_of)
    return replace(parameters, storages=(*parameters.storages, *(copy.untyped_storage() for copy in copies)))


def quantised_layer(layer: nn.Linear) -> tuple[LinearParameters, tuple[Tensor, ...]]:
    """Quantise a linear layer; return it as an argument of the C kernels, and the tensors that hold its numbers."""
    scales, integers = quantise(layer.weight.detach())
    n_added = -layer.out_features % OUTPUTS_OF_BLOCK  # outputs of 0 that fill the last block
    integers = F.pad(integers, (0, 0, 0, n_added))
    bias, scales = F.pad(layer.bias.detach(), (0, n_added)), F.pad(scales, (0, n_added))
    in_blocks = "(blocks outputs) (groups inputs) -> blocks groups outputs inputs"
    packed = rearrange(integers, in_blocks, outputs=OUTPUTS_OF_BLOCK, inputs=INPUTS_OF_GROUP).contiguous()
    # the kernels add 128 to each quantised input, since processors multiply unsigned by signed bytes
    corrections = -128 * integers.sum(dim=1, dtype=torch.int32)
    parameters = LinearParameters(
        bias=bias.data_ptr(),
        n_in=layer.in_features,
        n_out=layer.out_features,
        integers=packed.data_ptr(),
        scales=scales.data_ptr(),
        corrections=corrections.data_ptr(),
    )
    return parameters, (bias, packed, scales, corrections)


def quantise(
    vectors: Float[Tensor, "vectors numbers"],
) -> tuple[Float[Tensor, " vectors"], Int[Tensor, "vectors numbers"]]:
    """Return a scale for each vector, and integers from -127 to 127 as int8: vector ≈ scale · integers.

    >>> quantise(torch.tensor([[0.5, -1.27, 0.013]]))
    (tensor([0.0100]), tensor([[  50, -127,    1]], dtype=torch.int8))
    """
    scales = vectors.abs().amax(dim=1) / 127
    divisors = scales.clamp(min=1e-32)[:, None]  # a vector of zeros has the scale 0
    return scales, (vectors / divisors).round().to(torch.int8)
