"""Laws of every search: scores, prefixes and limits, batches, caches, number types, and refusals."""

import copy
import math
from contextlib import nullcontext
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest
import torch
from refusals import refusal
from tiny_model import Tiny, alone, forced, some_sources
from torch.utils._python_dispatch import TorchDispatchMode

from regard.errors import InputError
from regard.text.vocabulary import BOS, EOS, PAD
from regard.transformer.config import TransformerConfig
from regard.transformer.decoding.kernel import CompiledDecoding
from regard.transformer.model import Transformer
from regard.translation.search.beam import Beam
from regard.translation.search.decoding import start_decoding
from regard.translation.search.greedy import Greedy
from regard.translation.search.interface import SourceBatch
from regard.translation.search.sampling import Sample

SEARCHES = [
    Greedy(),
    Beam(3, length_penalty=1.3, n_best=3),
    Beam(4, coverage_penalty=0.4),
    Sample(seed=3),
    Sample(temperature=0.7, top_k=3, top_p=0.9),
]

TRANSFORMER_SEARCHES = SEARCHES[1], SEARCHES[3]
"""One search with several hypotheses and one with a single hypothesis, for the Transformer, which is slower."""


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


@pytest.fixture(scope="module")
def transformer():
    torch.manual_seed(7)
    config = TransformerConfig.preset(
        "tiny", n_source_tokens=23, n_target_tokens=19, d_model=16, d_ff=32, n_layers=2, share="none", max_tokens=10
    )
    model = Transformer(config).eval().double()
    with torch.no_grad():
        model.decoder.to_logits.weight.mul_(6)  # so that it prefers something
    return model


@pytest.mark.parametrize("search", SEARCHES, ids=repr)
def test_scores_prefixes_and_limits_are_kept(search, transformer):
    models = (Tiny(5), transformer) if search in TRANSFORMER_SEARCHES else (Tiny(5),)
    for model in models:
        sources = some_sources(model, n=5, limits=[7, 4, 3, 5, 6], prefix=2)
        for row, hypotheses in enumerate(search.run(model, sources)):
            for hypothesis in hypotheses:
                (log_probability,), _ = forced(model, sources, row, [hypothesis.tokens])
                assert hypothesis.log_probability == pytest.approx(log_probability, abs=1e-8)
                if not isinstance(search, Beam):
                    assert hypothesis.score == hypothesis.log_probability
                assert list(hypothesis.tokens[:2]) == sources.prefix[row].tolist()
                assert len(hypothesis.tokens) <= sources.limits[row]
                assert hypothesis.cut == (len(hypothesis.tokens) == sources.limits[row])
                assert not {PAD, BOS, EOS} & set(hypothesis.tokens)


class WithoutFloat64(TorchDispatchMode):
    """Imitates a device without float64, except for the random numbers of sampling, which are drawn on the CPU."""

    DRAW = torch.ops.aten.rand, torch.ops.aten.stack

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        found = function(*arguments, **(named or {}))
        if isinstance(found, torch.Tensor) and function.overloadpacket not in self.DRAW:
            assert found.dtype != torch.float64, function
        return found


@pytest.mark.parametrize("without_float64", [False, True])
@pytest.mark.parametrize(
    ("search", "prefix"), [(Greedy(), 2), (SEARCHES[2], 2), (SEARCHES[4], 2), (Beam(3), 0)], ids=repr
)
def test_scores_of_float32_are_true_also_without_float64(search, prefix, without_float64, transformer, monkeypatch):
    single = Transformer(transformer.config).eval()
    single.load_state_dict(transformer.state_dict())
    sources = some_sources(single, n=4, prefix=prefix)
    for module in ("decoding", "sampling", "beam") if without_float64 else ():
        monkeypatch.setattr(f"regard.translation.search.{module}.widest_type", lambda device: torch.float32)
    with WithoutFloat64() if without_float64 else nullcontext():
        found = search.run(single, sources)
    for row, hypotheses in enumerate(found):
        for hypothesis in hypotheses:
            (log_probability,), _ = forced(single, sources, row, [hypothesis.tokens])
            assert hypothesis.log_probability == pytest.approx(log_probability, abs=1e-4)


@pytest.mark.parametrize("search", SEARCHES, ids=repr)
def test_a_batch_finds_what_each_alone_finds(search, transformer):
    models = (Tiny(5), transformer) if search in TRANSFORMER_SEARCHES else (Tiny(5),)
    for model in models:
        sources = some_sources(model, n=4, limits=[7, 3, 9, 5])
        together = search.run(model, sources)
        for row, hypotheses in enumerate(together):
            (single,) = search.run(model, alone(sources, row))
            assert [h.tokens for h in hypotheses] == [h.tokens for h in single]
            assert [h.score for h in hypotheses] == pytest.approx([h.score for h in single], abs=1e-8)


class Uncached:
    """A model that reads the whole target again at every step."""

    def __init__(self, model):
        self.model, self.config = model, model.config

    def start(self, source, lengths):
        return WholeState(source, lengths, source[:, :0])

    def step(self, tokens, state):
        state = replace(state, target=torch.cat([state.target, tokens], dim=1))
        predicted = self.model(state.source, state.lengths, state.target)
        return SimpleNamespace(logits=predicted.logits[:, -tokens.shape[1] :], state=state, cross=predicted.cross)


@dataclass
class WholeState:
    source: torch.Tensor
    lengths: torch.Tensor
    target: torch.Tensor

    def select(self, rows):
        return WholeState(self.source[rows], self.lengths[rows], self.target[rows])


@pytest.mark.usefixtures("without_type_checks")
@pytest.mark.parametrize("search", [Greedy(), Beam(3, n_best=3), Sample(seed=3)], ids=repr)
def test_a_cache_changes_nothing(search, transformer):
    sources = some_sources(transformer, n=5, prefix=2)
    cached, uncached = search.run(transformer, sources), search.run(Uncached(transformer), sources)
    for a, b in zip(cached, uncached, strict=True):
        assert [h.tokens for h in a] == [h.tokens for h in b]
        assert [h.score for h in a] == pytest.approx([h.score for h in b], abs=1e-8)


@pytest.mark.parametrize("prefix", [0, 2])
@pytest.mark.parametrize("search", SEARCHES, ids=repr)
def test_the_c_kernels_find_what_steps_of_the_model_find(search, prefix, monkeypatch):
    torch.manual_seed(5)
    sizes = {"d_model": 32, "n_heads": 2, "d_ff": 32, "n_layers": 2, "max_tokens": 30, "share": "none"}
    model = Transformer(TransformerConfig.preset("tiny", n_source_tokens=23, n_target_tokens=97, **sizes)).eval()
    model.decoder.to_logits.weight.mul_(3)  # so that it prefers something
    sources = some_sources(model, n=6, limits=[9, 4, 14, 5, 25, 7], prefix=prefix)
    assert isinstance(start_decoding(model, sources), CompiledDecoding)
    found = search.run(model, sources)
    monkeypatch.setattr(Transformer, "compiled_decoding", lambda *sources, **sizes: None)
    for by_kernels, by_steps in zip(found, search.run(model, sources), strict=True):
        assert [one.tokens for one in by_kernels] == [one.tokens for one in by_steps]
        assert [one.score for one in by_kernels] == pytest.approx([one.score for one in by_steps], abs=1e-4)


def test_limits_follow_the_source_and_the_model():
    model = Tiny()
    sources = SourceBatch.of(model, [[5, 3], [5, 6, 7, 3]], [[4], [4]])
    assert sources.limits == (22, 22)  # max_tokens is 23, and one token is BOS
    roomy = Tiny(config=replace(model.config, max_tokens=997))
    assert SourceBatch.of(roomy, [[5, 3], [5, 6, 7, 3]], [[4], [4]]).limits == (3 * 2 + 20 + 1, 3 * 4 + 20 + 1)


@pytest.mark.parametrize("search", [Greedy(), Beam(3), Sample()], ids=repr)
def test_what_has_ended_costs_nothing_more(search):
    """After the search for a sentence has ended, the model gets no more rows for this sentence."""
    model = Tiny(11)
    sources = some_sources(model, n=6, limits=[1, 1, 1, 1, 1, 12])
    model.n_rows = 0
    search.run(model, sources)
    together = model.n_rows
    model.n_rows = 0
    for row in range(6):
        search.run(model, alone(sources, row))
    assert together <= model.n_rows


# Refusals


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Beam(0), "size=0 is the number of hypotheses in the beam; it must be at least 1."),
        (lambda: Beam(3, n_best=4), "n_best=4 does not fit size=3; it must be at least 1 and at most that size."),
        (lambda: Beam(length_penalty=-1.0), "length_penalty=-1.0 must be a number of at least 0; 0 = no penalty."),
        (
            lambda: Beam(coverage_penalty=math.nan),
            "coverage_penalty=nan must be a number of at least 0; 0 = no penalty.",
        ),
        (lambda: Sample(0.0), "temperature=0.0 must be a number above 0; for the most probable token use Greedy()."),
        (lambda: Sample(top_k=0), "top_k=0 must be at least 1: there must be a token to draw."),
        (lambda: Sample(top_p=1.5), "top_p=1.5 must be a probability above 0 and at most 1."),
        (lambda: Sample(seed=-1), "seed=-1 must be a whole number from 0 to 2⁶³ - 1."),
    ],
)
def test_refusals(make, message):
    assert refusal(ValueError, make) == message


@pytest.mark.parametrize("search", [Greedy(), Beam(3), Sample()], ids=repr)
def test_a_model_that_gives_nan_is_refused(transformer, search):
    damaged = copy.deepcopy(transformer).float()
    with torch.no_grad():
        damaged.decoder.to_logits.weight[7] = math.nan
    assert refusal(InputError, search.run, damaged, some_sources(damaged)) == (
        "the model gives NaN for the next token; its parameters are damaged, or too small a number type overflows: "
        "load it in float32."
    )
