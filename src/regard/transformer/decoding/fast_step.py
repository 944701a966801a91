"""Where a step of one token may be taken without modules and patterns, and by what.

Where anything is not as the paper has it (a module that was replaced, a hook, another score, parameters that are not
all there) there is no shortcut, and the decoder's own forward takes the step. Where there is one, a kernel takes it if
it can (`kernel.py`), and else operations on tensors do (`unwrapped_step.py`).
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.backends.choose import PREFERRED
from regard.attention.layers.multi_head import MultiHeadAttention
from regard.attention.normalise.normaliser import Normaliser
from regard.attention.normalise.softmax import Softmax
from regard.attention.positions.learned import LearnedPositions
from regard.attention.scores.dot import ScaledDot
from regard.attention.scores.score import Score
from regard.kernels.linear import hooked, nothing_extra
from regard.transformer.block import DecoderBlock, Residual
from regard.transformer.decoding.cache import Past, PastByBlock
from regard.transformer.decoding.kernel import Newest
from regard.transformer.decoding.unwrapped_step import BareDecoder, SourceQueries, Sources
from regard.transformer.dropout import Dropout
from regard.transformer.embedding import Embedding
from regard.transformer.feed_forward import FeedForward

KNOWN = (
    DecoderBlock, MultiHeadAttention, FeedForward, Residual, Embedding, LearnedPositions, Dropout,
    nn.Embedding, nn.LayerNorm, nn.Linear, nn.ModuleList,
)  # fmt: skip
"""The modules whose sums are written down in `unwrapped_step.py` and `decoding_step.c`."""


@dataclass(frozen=True, slots=True, eq=False)
class Shortcut:
    """What takes steps of one token.

    Attributes:
        decoder: as its tensors.
        sources: what the rows read.
        newest: the kernel; None where it cannot read this decoder or these sources.
    """

    decoder: BareDecoder
    sources: Sources
    newest: Newest | None

    @classmethod
    def of(cls, decoder: nn.Module, sources: Sources) -> "Shortcut | None":
        """What takes steps for a decoder; None where only the decoder itself can."""
        if decoder.training or hooked(decoder) or not all(map(known, list(decoder.modules())[1:])):
            return None
        bare = BareDecoder.of(decoder)
        newest = Newest.of(bare, sources)
        return cls(bare, sources, newest) if newest is not None or (bare.even and bare.finite) else None

    def reading(self, sources: Sources) -> "Shortcut":
        """The same for rows that read other sources."""
        return Shortcut(self.decoder, sources, None if self.newest is None else self.newest.reading(sources))

    def reads(self, sources: Int[Tensor, " rows"]) -> bool:
        """Whether rows that read these sources are what it has."""
        return torch.equal(sources, self.sources.of_row)

    def step(
        self, tokens: Int[Tensor, "rows 1"], past: Past | PastByBlock | None
    ) -> tuple[Float[Tensor, "rows 1 vocabulary"], Past, SourceQueries]:
        """Read one token more of each row.

        Args:
            tokens: ids.
            past: the tokens before; None = there are none.

        Returns:
            Scores of what comes next; the tokens with the new one; each block's queries to the sources.

        Raises:
            ValueError: more or fewer rows than the state has.
        """
        if len(tokens) != len(self.sources.of_row) or (past is not None and len(tokens) != past.rows):
            raise ValueError(
                f"got {len(tokens)} rows of tokens for a state of {len(self.sources.of_row)}; each row of a state goes "
                "on by one token, and state.select takes some rows of it."
            )
        x = self.decoder.embed(tokens[:, 0], 0 if past is None else past.n_tokens)
        longer = self.decoder.longer(past, x, self.sources)
        if self.newest is not None:
            x, queries = self.newest.read(x, longer)
        else:
            x, queries = self.decoder.read(x, longer, self.sources)
        return self.decoder.to_logits(x)[:, None], longer, queries


def known(module: nn.Module) -> bool:
    """Whether all is written down that a module of the decoder does, with parameters that are all there."""
    if type(module) not in KNOWN or hooked(module):
        return False
    if any(type(parameter) is not nn.Parameter for parameter in module._parameters.values()):
        return False  # there is none, or it is divided over processes
    if isinstance(module, MultiHeadAttention):
        return products(module.score) and weighted(module.normalise)
    if isinstance(module, DecoderBlock):
        return module.cross_attention is not None and module.cross_attention.positions is None
    return True


def products(score: Score) -> bool:
    """Whether scores are products divided by √d_head."""
    return isinstance(score, ScaledDot) and score.scale is None and score.softcap is None and score.bias is None


def weighted(normalise: Normaliser) -> bool:
    """Whether weights are the softmax of the scores."""
    return isinstance(normalise, Softmax) and normalise.temperature == 1 and normalise.sinks is None


def may_be_short(device: torch.device) -> bool:
    """Whether steps may be: nobody wants gradients, another backend, another precision or a program of them."""
    return nothing_extra(device) and PREFERRED.name in (None, "fused")
