"""A tiny model that implements `TranslatingModel`, with random parameters from a seed, and sources to translate."""

from dataclasses import dataclass, replace
from itertools import product
from types import SimpleNamespace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard import attend
from regard.attention.masks import Padding
from regard.text.vocabulary import BOS, EOS, PAD
from regard.translation.search.interface import SourceBatch


@dataclass(frozen=True)
class TinyConfig:
    n_source_tokens: int = 11
    n_target_tokens: int = 7
    max_tokens: int = 23


@dataclass(frozen=True)
class TinyState:
    memory: Float[Tensor, "batch source d"]
    lengths: Int[Tensor, " batch"]
    hidden: Float[Tensor, "batch d"]
    n_tokens: int

    def select(self, rows):
        return replace(self, memory=self.memory[rows], lengths=self.lengths[rows], hidden=self.hidden[rows])


class Tiny(nn.Module):
    """A recurrent decoder of width 6 that attends to the embedded source in three layers of two heads.

    Its logits depend on all tokens that it has read; `sharpness` scales them.
    """

    def __init__(self, seed=0, sharpness=1.5, config=TinyConfig()):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)

        def drawn(*shape):
            return nn.Parameter(torch.randn(shape, generator=generator, dtype=torch.float64), requires_grad=False)

        self.config, self.sharpness = config, sharpness
        self.read, self.write = drawn(config.n_source_tokens, 6), drawn(config.n_target_tokens, 6)
        self.turn, self.looks, self.out = drawn(6, 6), drawn(3, 6, 6), drawn(12, config.n_target_tokens)
        self.n_steps = self.n_rows = 0

    def start(self, source, lengths):
        return TinyState(self.read[source], lengths, torch.zeros(len(source), 6, dtype=torch.float64), 0)

    def step(self, tokens, state):
        self.n_steps, self.n_rows = self.n_steps + 1, self.n_rows + len(tokens)
        hidden, outputs = state.hidden, []
        for token in tokens.unbind(1):
            hidden = torch.tanh(hidden @ self.turn / 2 + self.write[token])
            outputs.append(hidden)
        read, mask = torch.stack(outputs, dim=1), Padding(state.lengths)
        memory = state.memory.unflatten(2, (2, 3)).transpose(1, 2)
        queries = [(read @ look).unflatten(2, (2, 3)).transpose(1, 2) for look in self.looks]
        looked = [attend(query, memory, memory, mask=mask) for query in queries]
        context = looked[-1].context.transpose(1, 2).flatten(2)
        logits = self.sharpness * (torch.cat([read, context], dim=2) @ self.out) / 3
        new = TinyState(state.memory, state.lengths, hidden, state.n_tokens + tokens.shape[1])
        return SimpleNamespace(logits=logits, state=new, cross=tuple(one.pattern for one in looked))

    def forward(self, source, lengths, target):
        step = self.step(target, self.start(source, lengths))
        return SimpleNamespace(logits=step.logits, encoder=(), decoder=(), cross=step.cross)


def some_sources(model, n=5, limits=None, prefix=0, seed=1):
    """A batch of n random sources of several lengths, each with a random prefix of `prefix` pieces."""
    generator = torch.Generator().manual_seed(seed)

    def ids(n_tokens, vocabulary):
        return torch.randint(4, vocabulary, (n_tokens,), generator=generator).tolist()

    texts = [[*ids(1 + (2 * row) % 5, model.config.n_source_tokens), EOS] for row in range(n)]
    sources = SourceBatch.of(model, texts, [ids(prefix, model.config.n_target_tokens) for _ in texts])
    return sources if limits is None else replace(sources, limits=tuple(limits))


def alone(sources, row):
    """A batch with only the source of this row, without padding."""
    length = int(sources.lengths[row])
    return SourceBatch(
        source=sources.source[row : row + 1, :length],
        lengths=sources.lengths[row : row + 1],
        prefix=sources.prefix[row : row + 1],
        limits=sources.limits[row : row + 1],
        numbers=sources.numbers[row : row + 1],
    )


def forced(model, sources, row, texts):
    """Return log P(text, EOS | source) for some texts of equal length, and the attention weights of their tokens."""
    one, n = alone(sources, row), len(texts)
    target = torch.tensor([[BOS, *text] for text in texts])
    predicted = model(one.source.expand(n, -1), one.lengths.expand(n), target)
    known = predicted.logits.double().log_softmax(dim=-1)
    expected = torch.tensor([[*text, EOS] for text in texts])
    cross = predicted.cross[-2] if len(predicted.cross) > 1 else predicted.cross[0]
    return known.gather(2, expected[..., None])[..., 0].sum(dim=1).tolist(), cross.dense().mean(dim=1)


def every_text(model, sources, row):
    """Return every text that a search may return: the prefix, then any pieces but PAD, BOS and EOS, up to the limit."""
    pieces = [token for token in range(model.config.n_target_tokens) if token not in (PAD, BOS, EOS)]
    prefix = tuple(sources.prefix[row].tolist())
    for n in range(sources.limits[row] - len(prefix) + 1):
        for more in product(pieces, repeat=n):
            yield prefix + more
