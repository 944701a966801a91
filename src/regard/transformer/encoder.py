"""The encoder: for each token of a text, a vector computed from the whole text.

Source: Vaswani et al. 2017, section 3.1.
"""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.masks import Padding
from regard.attention.pattern import Pattern
from regard.attention.representation import Described
from regard.checks import check_config
from regard.transformer.block import EncoderBlock
from regard.transformer.config import TransformerConfig
from regard.transformer.embedding import Embedding


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Encoded(Described):
    """The output of `Encoder.forward`.

    Attributes:
        output: a vector for each token; vectors at padded positions have no meaning and must be masked.
        patterns: the self-attention weights of each block, as a `Pattern`.
    """

    output: Float[Tensor, "batch source d_model"]
    patterns: tuple[Pattern, ...]


class Encoder(nn.Module):
    """A Transformer encoder: embedding, then blocks in which each token attends to the whole text.

    >>> import torch
    >>> encoder = Encoder(TransformerConfig.preset("tiny", n_source_tokens=97, n_target_tokens=97))
    >>> encoded = encoder(torch.tensor([[5, 7, 3], [11, 3, 0]]), torch.tensor([3, 2]))
    >>> encoded.output.shape, encoded.patterns[0]
    (torch.Size([2, 3, 128]), Pattern(batch=2, heads=4, queries=3, keys=3, mask=Padding(lengths=<int64 [2]>)))
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        check_config(config, TransformerConfig)
        if not config.n_source_tokens:
            raise ValueError(
                "n_source_tokens=0 leaves an encoder without a vocabulary; give the size of its vocabulary."
            )
        self.config = config
        self.embedding = Embedding(config.n_source_tokens, config)
        self.blocks = nn.ModuleList(EncoderBlock(config) for _ in range(config.n_layers))
        self.norm = nn.LayerNorm(config.d_model) if config.norm == "pre" else None

    def forward(self, source: Int[Tensor, "batch source"], lengths: Int[Tensor, " batch"] | None = None) -> Encoded:
        """Return a vector for each token of each text.

        Args:
            source: token ids, padded on the right.
            lengths: the number of tokens of each text before its padding; None = no padding.
        """
        mask = None if lengths is None else Padding(lengths)
        x, patterns = self.embedding(source, name="source"), []
        for block in self.blocks:
            block_output = block(x, mask=mask)
            x = block_output.output
            patterns.append(block_output.self_attention.pattern)
        return Encoded(output=x if self.norm is None else self.norm(x), patterns=tuple(patterns))
