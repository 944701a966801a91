"""The Transformer: an encoder for the source, and a decoder that predicts each target token from the tokens before it.

Source: Vaswani et al. 2017, "Attention is all you need".
"""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.masks.lengths import check_source, check_token_ids, shortest_and_longest
from regard.attention.pattern import Pattern
from regard.attention.representation import Described
from regard.checks import check_config
from regard.transformer.block import BlockOutput
from regard.transformer.config import TransformerConfig
from regard.transformer.decoder import Decoded, Decoder
from regard.transformer.decoding.encode import encode, is_encoding_supported
from regard.transformer.decoding.kernel import CompiledDecoding
from regard.transformer.decoding.parameters import KernelModule
from regard.transformer.decoding.state import DecodingState
from regard.transformer.decoding.supported import is_kernel_allowed
from regard.transformer.encoder import Encoder


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TransformerOutput(Described):
    """For each target token, the logits of the token that follows it; and the attention weights of all blocks.

    Attributes:
        encoder, decoder: the self-attention weights of each encoder block and of each decoder block.
        cross: the cross-attention weights of each decoder block.
    """

    logits: Float[Tensor, "batch target vocabulary"]
    encoder: tuple[Pattern, ...]
    decoder: tuple[Pattern, ...]
    cross: tuple[Pattern, ...]


class Transformer(nn.Module):
    """An encoder-decoder Transformer for translation.

    >>> import torch
    >>> model = Transformer(TransformerConfig.preset("tiny", n_source_tokens=97, n_target_tokens=97)).eval()
    >>> source, lengths = torch.tensor([[5, 7, 3], [11, 3, 0]]), torch.tensor([3, 2])
    >>> predicted = model(source, lengths, torch.tensor([[2, 13], [2, 17]]))
    >>> predicted.logits.shape, predicted.cross[-1].shape
    (torch.Size([2, 2, 97]), torch.Size([2, 4, 2, 3]))
    >>> step = model.step(torch.tensor([[2], [2]]), model.start(source, lengths))
    >>> torch.allclose(step.logits[:, 0], predicted.logits[:, 0], atol=1e-5)
    True
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        check_config(config, TransformerConfig)
        self.config = config
        self.encoder, self.decoder = Encoder(config), Decoder(config)
        if config.share == "all":
            self.encoder.embedding.by_token = self.decoder.embedding.by_token

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        lengths: Int[Tensor, " batch"],
        target: Int[Tensor, "batch target"],
    ) -> TransformerOutput:
        """Return, for each token of whole targets, the logits of the token that follows it (teacher forcing).

        Args:
            source: token ids, padded on the right.
            lengths: the number of tokens of each source before its padding.
            target: token ids, beginning with BOS and padded on the right.

        Raises:
            ValueError: a length is below 1 or above source.shape[1], or an id is not in the vocabulary (ids and lengths
                on an accelerator are not checked); or the number of targets is no multiple of the number of sources.
            TypeError: an argument is not a tensor of whole numbers.
        """
        check_source(source, lengths)
        encoded = self.encoder(source, lengths)
        decoded = self.decoder(target, self.decoder.start(encoded.output, lengths))
        return TransformerOutput(
            logits=decoded.logits, encoder=encoded.patterns, decoder=decoded.patterns, cross=decoded.cross
        )

    @property
    def to_logits(self) -> nn.Linear:
        """The output projection of the decoder, from hidden states to logits."""
        return self.decoder.to_logits

    def vectors(
        self,
        source: Int[Tensor, "batch source"],
        lengths: Int[Tensor, " batch"],
        target: Int[Tensor, "batch target"],
    ) -> Float[Tensor, "batch target d_model"]:
        """Return, for each target token, the hidden state to which the output projection is applied.

        `forward` has the same arguments. From the hidden states a loss can compute the logits in chunks.
        """
        hidden_states, _ = self._run_blocks(source, lengths, target)
        return hidden_states

    def cross_patterns(
        self,
        source: Int[Tensor, "batch source"],
        lengths: Int[Tensor, " batch"],
        target: Int[Tensor, "batch target"],
    ) -> tuple[Pattern, ...]:
        """Return `cross` of the output of `forward`, which has the same arguments, without computing the logits."""
        _, outputs = self._run_blocks(source, lengths, target)
        return tuple(output.cross_attention.pattern for output in outputs if output.cross_attention is not None)

    def _run_blocks(
        self,
        source: Int[Tensor, "batch source"],
        lengths: Int[Tensor, " batch"],
        target: Int[Tensor, "batch target"],
    ) -> tuple[Float[Tensor, "batch target d_model"], list[BlockOutput]]:
        check_source(source, lengths)
        return self.decoder.run_blocks(target, self.decoder.start(self.encoder(source, lengths).output, lengths))

    def start(self, source: Int[Tensor, "batch source"], lengths: Int[Tensor, " batch"]) -> DecodingState:
        """Encode the sources, and return the decoding state before the first target token, an argument of `step`.

        Args:
            source: token ids, padded on the right.
            lengths: the number of tokens of each source before its padding.
        """
        check_source(source, lengths)
        encoder, decoder = self._kernel_parameters(source)
        return self._encode_and_start(source, lengths, encoder, decoder)

    def step(self, tokens: Int[Tensor, "batch new"], state: DecodingState) -> Decoded:
        """Return, for each input token, the logits of the token that follows it, and the state for the next step.

        Args:
            tokens: the next token ids of each target, usually one per row; in the first step BOS.
            state: the result of `start`, or `state` of the previous step's output.
        """
        return self.decoder(tokens, state)

    def compiled_decoding(
        self, source: Int[Tensor, "batch source"], lengths: Int[Tensor, " batch"], *, most_rows: int, most_tokens: int
    ) -> CompiledDecoding | None:
        """Encode the sources; return an object that adds target tokens by C kernels, or None if they cannot be used.

        The result is None if the kernels do not support the decoder, if `is_kernel_allowed` returns False (e.g. because
        they were not built or gradients are on), or if the model has fewer than `most_tokens` position vectors.

        Args:
            source: token ids, padded on the right.
            lengths: the number of tokens of each source before its padding.
            most_rows: the largest number of target texts in the batch, at least the number of sources.
            most_tokens: the largest number of tokens of a target text, BOS counted.
        """
        check_source(source, lengths)
        encoder, decoder = self._kernel_parameters(source)
        if decoder is None or most_tokens > decoder.embedding.n_positions:
            return None
        state = self._encode_and_start(source, lengths, encoder, decoder)
        return CompiledDecoding(decoder, state.sources, state.lengths, most_rows=most_rows, most_tokens=most_tokens)

    def _kernel_parameters(
        self, source: Int[Tensor, "batch source"]
    ) -> tuple[KernelModule | None, KernelModule | None]:
        """Return the encoder and the decoder as arguments of the C kernels.

        The encoder is None if the kernels do not support it. Both are None if the kernels do not support the decoder,
        or if `is_kernel_allowed` returns False.
        """
        if type(self.decoder) is not Decoder or not is_kernel_allowed(source.device):
            return None, None
        decoder = KernelModule.of(self.decoder)
        encoder = KernelModule.of(self.encoder) if decoder and type(self.encoder) is Encoder else None
        return encoder, decoder

    def _encode_and_start(
        self,
        source: Int[Tensor, "batch source"],
        lengths: Int[Tensor, " batch"],
        encoder: KernelModule | None,
        decoder: KernelModule | None,
    ) -> DecodingState:
        shortest, _ = shortest_and_longest(lengths, source.shape[1])
        lengths_if_padded = lengths if shortest < source.shape[1] else None  # without padding, no mask is needed
        if decoder and encoder and is_encoding_supported(encoder, source):
            check_token_ids("source", source, self.config.n_source_tokens)
            memory = encode(encoder, decoder, source, lengths_if_padded)
            return DecodingState(lengths=lengths_if_padded, memory=memory)
        return self.decoder.start(self.encoder(source, lengths_if_padded).output, lengths_if_padded)
