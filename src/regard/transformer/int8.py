"""A Transformer that translates with 8-bit integers as weights: faster if the weights do not fit into the CPU cache."""

from jaxtyping import Int
from torch import Tensor, nn

from regard.errors import InputError
from regard.kernels.library import c_function
from regard.transformer.decoder import Decoder
from regard.transformer.decoding.kernel import CompiledDecoding
from regard.transformer.decoding.quantised import quantised_parameters
from regard.transformer.decoding.supported import structure_reason
from regard.transformer.encoder import Encoder
from regard.transformer.model import Transformer


class Int8Transformer(Transformer):
    """A Transformer whose C kernels compute linear layers with 8-bit integers (see decoding/quantised.py).

    It shares the modules and parameters of `model`, which is put into evaluation mode. Only `compiled_decoding`, which
    every search for translations calls, uses integers; `forward`, `start` and `step` compute in float32. If a source
    has more than 512 tokens, or the encoder's positions are rotary, the encoder and the keys and values of
    cross-attention are computed in float32, too.

    Raises:
        InputError: the C kernels do not support the model, it is not on a CPU, or no kernels were built.
    """

    def __init__(self, model: object) -> None:
        nn.Module.__init__(self)
        if type(model) is not Transformer:
            raise InputError(f"int8 needs a Transformer, and the model is a {type(model).__name__}; leave int8 out.")
        self.config, self.encoder, self.decoder = model.config, model.encoder, model.decoder
        self.eval()
        if reason := int8_reason(model):
            raise InputError(f"int8 does not support this model: {reason}; leave int8 out.")
        self.quantised = quantised_parameters(self.encoder), quantised_parameters(self.decoder)

    def compiled_decoding(
        self, source: Int[Tensor, "batch source"], lengths: Int[Tensor, " batch"], *, most_rows: int, most_tokens: int
    ) -> CompiledDecoding:
        """Encode the sources; return an object that adds target tokens by C kernels, as `Transformer` does.

        Raises:
            ValueError: `most_tokens` is above the number of stored positions.
        """
        encoder, decoder = self.quantised
        if most_tokens > decoder.embedding.n_positions:
            raise ValueError(
                f"most_tokens={most_tokens} is above the model's {decoder.embedding.n_positions} positions; int8 "
                "decodes at most as many tokens."
            )
        state = self._encoded(source, lengths, encoder, decoder)
        return CompiledDecoding(decoder, state.sources, state.lengths, most_rows=most_rows, most_tokens=most_tokens)


def int8_reason(model: Transformer) -> str | None:
    """Return the reason why a Transformer in evaluation mode cannot decode with 8-bit integers; None if it can."""
    if (device := model.to_logits.weight.device).type != "cpu":
        return f"it is on the device {device}, and the kernels for 8-bit integers run on cpu"
    if type(model.encoder) is not Encoder or type(model.decoder) is not Decoder:
        return "its encoder or decoder is not the standard one"
    if c_function("regard_decoding_step") is None:
        return "no C kernels were built when regard was installed"
    return structure_reason(model.encoder) or structure_reason(model.decoder)
