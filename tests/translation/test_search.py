"""Every search: right by exhaustion on tiny models, by laws on the Transformer, and true in its scores."""

import copy
import math
from dataclasses import replace
from itertools import groupby

import pytest
import torch
from tiny_model import Tiny, alone, every_text, forced, some_sources
from torch.utils._python_dispatch import TorchDispatchMode

from regard.errors import InputError
from regard.text.vocabulary import BOS, EOS, PAD
from regard.transformer.config import TransformerConfig
from regard.transformer.model import Transformer
from regard.translation.search.beam import Beam
from regard.translation.search.greedy import Greedy
from regard.translation.search.interface import SourceBatch
from regard.translation.search.sampling import Sample

SEARCHES = [
    Greedy(),
    Beam(1),
    Beam(3, n_best=3),
    Beam(5, length_penalty=1.3, n_best=2),
    Beam(4, coverage_penalty=0.4),
    Sample(seed=3),
    Sample(temperature=0.7, top_k=3, top_p=0.9),
]


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


def scored(model, sources, row, texts, alpha, beta):
    """Texts with their scores by Wu et al.'s equation, best first."""
    found, n_pieces = [], int(sources.lengths[row]) - 1
    for length, alike in groupby(sorted(texts, key=len), key=len):
        alike = list(alike)
        log_probabilities, looked = forced(model, sources, row, alike)
        for text, log_probability, weights in zip(alike, log_probabilities, looked.tolist(), strict=True):
            lp = ((5 + length + 1) / (5 + 1)) ** alpha
            totals = [sum(weights[token][piece] for token in range(length + 1)) for piece in range(n_pieces)]
            cp = sum(math.log(min(max(total, 1e-9), 1.0)) for total in totals)
            found.append((log_probability / lp + beta * cp, text))
    return sorted(found, reverse=True)


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


@pytest.mark.parametrize(("alpha", "beta"), [(0.0, 0.0), (0.6, 0.0), (1.5, 0.0), (0.0, 0.7), (1.0, 0.3)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_wide_beam_finds_what_exhaustive_search_finds(seed, alpha, beta):
    model = Tiny(seed, sharpness=1 + seed)
    sources = some_sources(model, n=3, limits=[3, 2, 4])
    found = Beam(400, length_penalty=alpha, coverage_penalty=beta, n_best=5).run(model, sources)
    for row, hypotheses in enumerate(found):
        best = scored(model, sources, row, every_text(model, sources, row), alpha, beta)[:5]
        assert [hypothesis.tokens for hypothesis in hypotheses] == [text for _, text in best]
        assert [hypothesis.score for hypothesis in hypotheses] == pytest.approx([score for score, _ in best], abs=1e-9)


def test_exhaustive_search_after_a_prefix():
    model = Tiny(4)
    sources = some_sources(model, n=3, limits=[5, 4, 5], prefix=2)
    for row, (hypothesis,) in enumerate(Beam(400).run(model, sources)):
        assert hypothesis.tokens == scored(model, sources, row, every_text(model, sources, row), 0.6, 0.0)[0][1]


def plain_beam(model, sources, row, beam):
    """The same search with lists and no tricks: to the end, whatever may still win."""
    one, prefix = alone(sources, row), tuple(sources.prefix[row].tolist())
    running, ended = [(sum(following(model, one, [prefix[:n]])[0][t] for n, t in enumerate(prefix)), prefix)], []
    while running and len(ended) < beam.size:
        extensions = []
        expected = following(model, one, [text for _, text in running])
        for (total, text), known in zip(running, expected, strict=True):
            for token, more in enumerate(known):
                may = token == EOS if len(text) >= sources.limits[row] else token not in (PAD, BOS)
                if may:
                    extensions.append((total + more, (*text, token)))
        extensions = sorted(extensions, reverse=True)[: beam.size - len(ended)]
        ended += [text[:-1] for _, text in extensions if text[-1] == EOS]
        running = [(total, text) for total, text in extensions if text[-1] != EOS]
    return scored(model, sources, row, ended, beam.length_penalty, beam.coverage_penalty)[: beam.n_best]


def following(model, one, texts):
    """Log-probabilities of what may come after texts of one length."""
    target = torch.tensor([[BOS, *text] for text in texts])
    logits = model(one.source.expand(len(texts), -1), one.lengths.expand(len(texts)), target).logits[:, -1]
    return logits.double().log_softmax(dim=-1).tolist()


@pytest.mark.parametrize("prefix", [0, 2])
@pytest.mark.parametrize(
    "beam",
    [
        Beam(1),
        Beam(2, n_best=2),
        Beam(3, length_penalty=0.0),
        Beam(4, length_penalty=1.7, n_best=3),
        Beam(5, length_penalty=1.0, coverage_penalty=0.5, n_best=5),
    ],
)
def test_a_narrow_beam_is_the_plain_beam(beam, prefix):
    for seed in range(3):
        model = Tiny(seed, sharpness=2)
        sources = some_sources(model, n=4, limits=[8, 4, 6, 3], prefix=prefix, seed=seed)
        for row, hypotheses in enumerate(beam.run(model, sources)):
            expected = plain_beam(model, sources, row, beam)
            assert [hypothesis.tokens for hypothesis in hypotheses] == [text for _, text in expected]
            assert [hypothesis.score for hypothesis in hypotheses] == pytest.approx([s for s, _ in expected], abs=1e-9)


def test_a_beam_stops_as_soon_as_nothing_can_win():
    """All five must end before five are given; one is known to be the best as soon as none can beat it."""
    model = Tiny(3, sharpness=4)
    sources, beam = some_sources(model, n=3, limits=[12] * 3), Beam(5, length_penalty=0.0)
    n_steps = {}
    for n_best in (1, 5):
        model.n_steps = 0
        found = replace(beam, n_best=n_best).run(model, sources)
        n_steps[n_best] = model.n_steps
        for row, hypotheses in enumerate(found):
            score, text = plain_beam(model, sources, row, beam)[0]
            assert hypotheses[0].tokens == text
            assert hypotheses[0].score == pytest.approx(score, abs=1e-9)
    assert n_steps[5] == 12 + 1
    assert n_steps[1] < n_steps[5] / 2


@pytest.mark.parametrize("search", SEARCHES, ids=repr)
def test_scores_are_true_log_probabilities(search, transformer):
    for model in (Tiny(5), transformer):
        sources = some_sources(model, n=5, limits=[7, 4, 9, 5, 6], prefix=1)
        for row, hypotheses in enumerate(search.run(model, sources)):
            for hypothesis in hypotheses:
                (log_probability,), _ = forced(model, sources, row, [hypothesis.tokens])
                assert hypothesis.log_probability == pytest.approx(log_probability, abs=1e-8)
                if not isinstance(search, Beam):
                    assert hypothesis.score == hypothesis.log_probability


@pytest.mark.parametrize("search", SEARCHES, ids=repr)
def test_scores_of_float32_are_true_too(search, transformer):
    single = Transformer(transformer.config).eval()
    single.load_state_dict(transformer.state_dict())
    sources = some_sources(single, n=6)
    for row, hypotheses in enumerate(search.run(single, sources)):
        for hypothesis in hypotheses:
            (log_probability,), _ = forced(single, sources, row, [hypothesis.tokens])
            assert hypothesis.log_probability == pytest.approx(log_probability, abs=1e-4)


class Narrow(TorchDispatchMode):
    """A device without float64; a sample's numbers are drawn on the CPU, which has it."""

    DRAW = torch.ops.aten.rand, torch.ops.aten.stack

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        found = function(*arguments, **(named or {}))
        if isinstance(found, torch.Tensor) and function.overloadpacket not in self.DRAW:
            assert found.dtype != torch.float64, function
        return found


@pytest.mark.parametrize("prefix", [0, 2])
@pytest.mark.parametrize("search", SEARCHES, ids=repr)
def test_a_device_without_float64_searches_in_float32(search, prefix, transformer, monkeypatch):
    single = Transformer(transformer.config).eval()
    single.load_state_dict(transformer.state_dict())
    sources = some_sources(single, n=6, prefix=prefix)
    for module in ("next_token", "top_logits", "sampling", "beam"):
        monkeypatch.setattr(f"regard.translation.search.{module}.widest_type", lambda device: torch.float32)
    monkeypatch.setattr("regard.translation.search.top_logits.regard_likeliest", lambda: None)  # it runs on a CPU
    with Narrow():
        found = search.run(single, sources)
    for row, hypotheses in enumerate(found):
        for hypothesis in hypotheses:
            (log_probability,), _ = forced(single, sources, row, [hypothesis.tokens])
            assert hypothesis.log_probability == pytest.approx(log_probability, abs=1e-4)


@pytest.mark.parametrize("search", SEARCHES, ids=repr)
def test_a_batch_finds_what_each_alone_finds(search, transformer):
    for model in (Tiny(6), transformer):
        sources = some_sources(model, n=5, limits=[7, 3, 9, 5, 6])
        together = search.run(model, sources)
        for row, hypotheses in enumerate(together):
            (single,) = search.run(model, alone(sources, row))
            assert [h.tokens for h in hypotheses] == [h.tokens for h in single]
            assert [h.score for h in hypotheses] == pytest.approx([h.score for h in single], abs=1e-8)


class Uncached:
    """A model that reads everything from the beginning at every step."""

    def __init__(self, model):
        self.model, self.config = model, model.config

    def start(self, source, lengths):
        return Everything(source, lengths, source[:, :0])

    def step(self, tokens, state):
        state = replace_target(state, torch.cat([state.target, tokens], dim=1))
        predicted = self.model(state.source, state.lengths, state.target)
        return Read(predicted.logits[:, -tokens.shape[1] :], state, predicted.cross)


class Everything:
    def __init__(self, source, lengths, target):
        self.source, self.lengths, self.target = source, lengths, target
        self.n_tokens = target.shape[1]

    def select(self, rows):
        return Everything(self.source[rows], self.lengths[rows], self.target[rows])


class Read:
    def __init__(self, logits, state, cross):
        self.logits, self.state, self.cross = logits, state, cross


def replace_target(state, target):
    return Everything(state.source, state.lengths, target)


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize("search", [s for s in SEARCHES if not getattr(s, "coverage_penalty", 0)], ids=repr)
def test_a_cache_changes_nothing(search, transformer):
    sources = some_sources(transformer, n=5, prefix=2)
    cached, uncached = search.run(transformer, sources), search.run(Uncached(transformer), sources)
    for a, b in zip(cached, uncached, strict=True):
        assert [h.tokens for h in a] == [h.tokens for h in b]
        assert [h.score for h in a] == pytest.approx([h.score for h in b], abs=1e-8)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_a_beam_of_one_is_greedy(alpha, transformer):
    for model in (Tiny(8), Tiny(9, sharpness=4), transformer):
        sources = some_sources(model, n=5, limits=[7, 3, 9, 5, 6])
        beam, greedy = Beam(1, length_penalty=alpha).run(model, sources), Greedy().run(model, sources)
        assert [h.tokens for (h,) in beam] == [h.tokens for (h,) in greedy]
        assert [h.log_probability for (h,) in beam] == pytest.approx([h.log_probability for (h,) in greedy])


@pytest.mark.parametrize("search", SEARCHES, ids=repr)
def test_a_text_begins_with_its_prefix_and_ends_at_its_limit(search, transformer):
    for model in (Tiny(10, sharpness=0.1), transformer):
        sources = some_sources(model, n=5, limits=[4, 3, 5, 3, 4], prefix=3)
        for row, hypotheses in enumerate(search.run(model, sources)):
            for hypothesis in hypotheses:
                assert list(hypothesis.tokens[:3]) == sources.prefix[row].tolist()
                assert len(hypothesis.tokens) <= sources.limits[row]
                assert hypothesis.cut == (len(hypothesis.tokens) == sources.limits[row])
                assert not {PAD, BOS, EOS} & set(hypothesis.tokens)


def test_limits_follow_the_source_and_the_model():
    model = Tiny()
    sources = SourceBatch.of(model, [[5, 3], [5, 6, 7, 3]], [[4], [4]])
    assert sources.limits == (22, 22)  # max_tokens is 23, and BOS takes a place
    roomy = Tiny(config=replace(model.config, max_tokens=997))
    assert SourceBatch.of(roomy, [[5, 3], [5, 6, 7, 3]], [[4], [4]]).limits == (3 * 2 + 20 + 1, 3 * 4 + 20 + 1)


@pytest.mark.parametrize("search", [Greedy(), Beam(3), Sample()], ids=repr)
def test_what_has_ended_costs_nothing_more(search):
    """The rows given to the model are those of sentences that are not done."""
    model = Tiny(11)
    sources = some_sources(model, n=6, limits=[1, 1, 1, 1, 1, 12])
    model.n_rows = 0
    search.run(model, sources)
    together = model.n_rows
    model.n_rows = 0
    for row in range(6):
        search.run(model, alone(sources, row))
    assert together <= model.n_rows


# Sampling


def frequencies(sample, known, n):
    numbers = torch.rand(n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    chosen = sample.draw(known.expand(n, -1), numbers)
    return torch.bincount(chosen, minlength=known.shape[-1]).double() / n


KNOWN = torch.tensor([-math.inf, 0.9, -math.inf, 0.4, 2.0, 0.4, -1.0, 1.2, -2.5]).double().log_softmax(dim=0)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7])
def test_frequencies_are_those_of_softmax(temperature):
    """Pearson's chi-square against softmax(log P / temperature); 6 degrees of freedom, 22.5 = 1 in 1,000."""
    n = 20_000
    expected = (KNOWN / temperature).softmax(dim=0)
    found = frequencies(Sample(temperature=temperature), KNOWN, n)
    possible = expected > 0
    assert not found[~possible].any()
    assert float((n * (found - expected)[possible] ** 2 / expected[possible]).sum()) < 22.5


@pytest.mark.parametrize("top_k", [None, 1, 3, 9])
@pytest.mark.parametrize("top_p", [None, 0.01, 0.55, 0.8, 1.0])
def test_top_k_and_top_p_by_brute_force(top_k, top_p):
    n = 20_000
    order = sorted(range(9), key=lambda token: -float(KNOWN[token]))[: top_k or 9]
    chances = [math.exp(float(KNOWN[token])) for token in order]
    total, kept, reached = sum(chances), [], 0.0
    for token, chance in zip(order, chances, strict=True):
        if top_p is not None and reached >= top_p:
            break
        kept.append(token)
        reached += chance / total
    whole = sum(math.exp(float(KNOWN[token])) for token in kept)
    expected = torch.tensor([math.exp(float(KNOWN[t])) / whole if t in kept else 0.0 for t in range(9)]).double()
    found = frequencies(Sample(top_k=top_k, top_p=top_p), KNOWN, n)
    assert set(found.nonzero()[:, 0].tolist()) == {t for t in kept if expected[t] > 0}
    assert (found - expected).abs().max() < 0.02


def test_the_last_number_draws_the_last_token_that_is_possible():
    almost_one = torch.tensor([1 - 2**-53]).double()
    for sample in (Sample(), Sample(temperature=1e-300), Sample(top_k=4), Sample(top_p=0.3)):
        chosen = sample.draw(KNOWN[None], almost_one)
        assert KNOWN[int(chosen)] > -math.inf


def test_samples_follow_from_seed_and_number_alone():
    model = Tiny(12, sharpness=0.5)
    sources = some_sources(model, n=5)
    again = Sample(seed=1).run(model, sources)
    assert Sample(seed=1).run(model, sources) == again
    assert Sample(seed=2).run(model, sources) != again
    others = replace(sources, numbers=tuple(number + 1 for number in sources.numbers))
    assert Sample(seed=1).run(model, others) != again


# Refusals


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (Beam, {"size": 0}, "size=0 must be at least 1: a beam holds hypotheses."),
        (
            Beam,
            {"size": 3, "n_best": 4},
            "n_best=4 does not fit size=3; a beam gives from 1 to as many as it holds.",
        ),
        (Beam, {"length_penalty": -1.0}, "length_penalty=-1.0 must be a number of at least 0; 0 = no penalty."),
        (
            Beam,
            {"coverage_penalty": math.nan},
            "coverage_penalty=nan must be a number of at least 0; 0 = no penalty.",
        ),
        (
            Sample,
            {"temperature": 0.0},
            "temperature=0.0 must be a number above 0; for the likeliest token take Greedy().",
        ),
        (Sample, {"top_k": 0}, "top_k=0 must be at least 1: there must be a token to draw."),
        (Sample, {"top_p": 1.5}, "top_p=1.5 is a probability; it must be above 0 and at most 1."),
        (Sample, {"seed": -1}, "seed=-1 must be a whole number from 0 to 2⁶³ - 1."),
    ],
)
def test_refusals(kind, options, message):
    with pytest.raises(ValueError) as error:
        kind(**options)
    assert str(error.value) == message


@pytest.mark.parametrize("search", SEARCHES, ids=repr)
def test_a_model_that_gives_nan_is_refused(transformer, search):
    damaged = copy.deepcopy(transformer).float()
    with torch.no_grad():
        damaged.decoder.to_logits.weight[7] = math.nan
    with pytest.raises(InputError) as refused:
        search.run(damaged, some_sources(damaged))
    assert str(refused.value) == (
        "the model gives NaN for the next token; its parameters are damaged, or too small a number type overflows: "
        "load it in float32."
    )
