"""Every kind of attention there is, each built small, for the tests of what must hold for all of them.

    SCORES, MASKS, NORMALISERS, POSITIONS     a name, how the kind is built over a grid, and which promises it makes
    MODULES                                   whole layers
    Case                                      one product of a score, a mask, a normaliser, positions and a head layout
    drawn                                     such a product around one kind, the rest of it chosen by a number

A public kind that is missing here fails `test_laws.py`.
"""

import ast
import math
import random
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn

import regard
from regard import (
    Additive,
    Alibi,
    Bias,
    Causal,
    Chunked,
    Concat,
    Cosine,
    Dilated,
    Distance,
    Documents,
    Dot,
    Entmax,
    General,
    Global,
    Grid,
    GumbelSoftmax,
    Hard,
    Interpolate,
    Keep,
    LargerBase,
    Largest,
    LatentAttention,
    LearnedPositions,
    LlamaStretch,
    Local,
    Location,
    LocationAware,
    Mask,
    MultiHeadAttention,
    Padding,
    PredictedCentre,
    Prefix,
    RelativeBias,
    Rotary,
    Sampled,
    ScaledDot,
    Shaw,
    Sigmoid,
    Softmax,
    SoftmaxPlusOne,
    Sparsemax,
    StraightThrough,
    Stretch,
    TalkingHeads,
    TopK,
    Window,
    Yarn,
    attend,
    sinusoidal,
)
from regard.attention.masks import as_mask
from regard.attention.normalise.hard import Choice
from regard.attention.normalise.normaliser import Normaliser
from regard.attention.scores.prepared import Prepared
from regard.attention.scores.score import Score
from regard.attention.stages import modules_in

WIDTH, D_VALUE = 5, 3
SIZES = [(5, 7), (7, 7), (1, 7), (11, 5), (3, 1), (2, 19), (17, 19)]
"""Queries and keys; fewer keys than a register holds and more, as with a cache and with more queries than keys."""

HEADS = [(1, 1), (3, 3), (6, 3), (6, 2), (5, 1)]
"""Heads of the queries and of the keys: one, as many, in groups, all on one."""

BATCHES = [(2, 2, 2), (1, 2, 2), (2, 1, 1), (2, 1, 2), (1, 1, 1)]
"""Items of query, key and value; one serves all."""

AnyModule = TypeVar("AnyModule", bound=nn.Module)
Sum = Literal["1", "at most 1", "at most keys", "any"]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """How one kind is built over a grid, and which of the laws that do not hold for all hold for it."""

    build: Callable[[Grid], Any]
    by_place: bool = False
    """It depends on where a key stands, so that the order of the keys matters."""
    from_start: bool = True
    """If so, positions count from the first key, so that keys left out at the end change nothing."""
    sum: Sum = "1"
    smooth: bool = True
    """Weights have a gradient, and scores that differ by rounding give weights that do."""
    parametric: bool = False
    """It has parameters to train, to move and to save."""


def random_of(*what: object) -> torch.Generator:
    """A generator of its own for each thing that is named."""
    return torch.Generator().manual_seed(zlib.crc32(repr(what).encode()))


def normal(*shape: int, of: object = "") -> Tensor:
    """Numbers in float64 that belong to a shape and a name."""
    return torch.randn(shape, generator=random_of(shape, of), dtype=torch.float64)


def filled(module: AnyModule) -> AnyModule:
    """A module in float64 whose parameters are far from where they start, where some of them change nothing."""
    module.double()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.add_(normal(*parameter.shape, of=name))
    return module


def bias_tensor(grid: Grid) -> Tensor:
    """A number for each head, query and key; -∞ for a few."""
    bias = normal(grid.heads, grid.queries, grid.keys, of="bias")
    return bias.masked_fill(bias < -1.6, -math.inf)


def keep_tensor(grid: Grid) -> Tensor:
    """Whether each item's and head's query sees a key; some see none."""
    keep = torch.rand(grid.shape, generator=random_of(grid, "keep")) < 0.6
    keep[..., :1, :] &= torch.arange(grid.heads)[:, None, None] % 2 == 0
    return keep


def lengths(grid: Grid) -> Tensor:
    """How many tokens each item has; the first has none."""
    return torch.arange(grid.batch) * max(1, grid.keys - 2)


def centres(grid: Grid) -> Tensor:
    """Where each item's, head's and query's local attention is."""
    return normal(grid.batch, grid.heads, grid.queries, of="centre").abs() * grid.keys / 2


SCORES: Mapping[str, Kind] = {
    "ScaledDot": Kind(build=lambda grid: ScaledDot()),
    "ScaledDot, scale": Kind(build=lambda grid: ScaledDot(scale=-0.3)),
    "Dot": Kind(build=lambda grid: Dot()),
    "ScaledDot, softcap": Kind(build=lambda grid: ScaledDot(softcap=1.7)),
    "ScaledDot, bias": Kind(build=lambda grid: ScaledDot(bias=bias_tensor(grid)), by_place=True, from_start=False),
    "ScaledDot, softcap, Alibi": Kind(
        build=lambda grid: ScaledDot(softcap=2.3, bias=Alibi()), by_place=True, from_start=False
    ),
    "ScaledDot, Alibi": Kind(build=lambda grid: ScaledDot(bias=Alibi(offset=1)), by_place=True),
    "ScaledDot, Alibi, slopes": Kind(
        build=lambda grid: ScaledDot(bias=Alibi(normal(grid.heads, of="slopes").abs(), offset=0)), by_place=True
    ),
    "ScaledDot, RelativeBias": Kind(
        build=lambda grid: ScaledDot(bias=filled(RelativeBias(grid.heads, n_buckets=8, max_distance=13))),
        by_place=True,
        from_start=False,
        parametric=True,
    ),
    "ScaledDot, RelativeBias, one way": Kind(
        build=lambda grid: ScaledDot(
            bias=filled(RelativeBias(grid.heads, n_buckets=6, max_distance=5, bidirectional=False, offset=2))
        ),
        by_place=True,
        parametric=True,
    ),
    "General": Kind(build=lambda grid: filled(General(WIDTH, WIDTH)), parametric=True),
    "Additive": Kind(build=lambda grid: filled(Additive(WIDTH, WIDTH, 7)), parametric=True),
    "Concat": Kind(build=lambda grid: filled(Concat(WIDTH, WIDTH, 7)), parametric=True),
    "Cosine": Kind(build=lambda grid: Cosine(scale=3.0)),
    "Cosine, learned": Kind(
        build=lambda grid: Cosine(nn.Parameter(1 + normal(grid.heads, of="scale").abs())), parametric=True
    ),
    "Distance": Kind(build=lambda grid: Distance(scale=0.3)),
    "Location": Kind(build=lambda grid: filled(Location(WIDTH, max(grid.keys, 23))), by_place=True, parametric=True),
    "LocationAware": Kind(build=lambda grid: filled(LocationAware(WIDTH, WIDTH, 7, width=3)), parametric=True),
    "LocationAware, After": Kind(
        build=lambda grid: filled(LocationAware(WIDTH, WIDTH, 7, n_filters=2, width=5)).after(
            normal(1, *grid.shape[1:], of="previous").softmax(dim=-1)
        ),
        by_place=True,
        from_start=False,
        parametric=True,
    ),
    "Additive, Prepared": Kind(build=lambda grid: Prepared(filled(Additive(WIDTH, 3, WIDTH))), parametric=True),
    "Shaw": Kind(build=lambda grid: filled(Shaw(WIDTH, 3)), by_place=True, from_start=False, parametric=True),
    "Shaw, from the start": Kind(
        build=lambda grid: filled(Shaw(WIDTH, 2, scale=0.7, offset=0)), by_place=True, parametric=True
    ),
}

MASKS: Mapping[str, Kind] = {
    "none": Kind(build=lambda grid: None),
    "Causal": Kind(build=lambda grid: Causal()),
    "Causal, from the start": Kind(build=lambda grid: Causal(0)),
    "Causal, behind": Kind(build=lambda grid: Causal(-2)),
    "Prefix": Kind(build=lambda grid: Prefix(torch.arange(grid.batch) + 2)),
    "Prefix, one": Kind(build=lambda grid: Prefix(3, offset=1)),
    "Window": Kind(build=lambda grid: Window(2, 1)),
    "Dilated": Kind(build=lambda grid: Dilated(5, 3, 2)),
    "Chunked": Kind(build=lambda grid: Chunked(3)),
    "Global": Kind(build=lambda grid: Global([max(0, grid.keys - 2)])),
    "Padding": Kind(build=lambda grid: Padding(lengths(grid))),
    "Padding, left": Kind(build=lambda grid: Padding(lengths(grid), side="left")),
    "Keep": Kind(build=lambda grid: Keep(keep_tensor(grid))),
    "Keep, a tensor by key": Kind(build=lambda grid: torch.arange(grid.keys) % 3 != 1),
    "Documents": Kind(
        build=lambda grid: (
            Documents(torch.arange(grid.keys) // 3) if grid.queries <= grid.keys else Keep(keep_tensor(grid))
        )
    ),
    "Both": Kind(build=lambda grid: Causal() & Padding(lengths(grid))),
    "Either": Kind(build=lambda grid: Window(1, 0) | Global([0])),
    "Opposite": Kind(build=lambda grid: ~Window(1, 1) & Keep(keep_tensor(grid))),
}
"""Where keys stand matters to a mask too; a law that moves keys takes the mask as the matrix that it is."""

NORMALISERS: Mapping[str, Kind] = {
    "Softmax": Kind(build=lambda grid: Softmax()),
    "Softmax, cool": Kind(build=lambda grid: Softmax(temperature=0.4)),
    "Softmax, cold": Kind(build=lambda grid: Softmax(temperature=0.0), smooth=False),
    "Softmax, sinks": Kind(build=lambda grid: Softmax(sinks=normal(grid.heads, of="sinks")), sum="at most 1"),
    "Softmax, cold, sinks": Kind(
        build=lambda grid: Softmax(temperature=0.0, sinks=normal(grid.heads, of="sinks")),
        sum="at most 1",
        smooth=False,
    ),
    "SoftmaxPlusOne": Kind(build=lambda grid: SoftmaxPlusOne(), sum="at most 1"),
    "Sparsemax": Kind(build=lambda grid: Sparsemax()),
    "Entmax": Kind(build=lambda grid: Entmax()),
    "Entmax, 1": Kind(build=lambda grid: Entmax(1.0)),
    "Entmax, 1.3": Kind(build=lambda grid: Entmax(1.3)),
    "Entmax, 2": Kind(build=lambda grid: Entmax(2.0)),
    "Entmax, 3": Kind(build=lambda grid: Entmax(3.0), smooth=False),  # a weight that has just left 0 rises infinitely
    "Sigmoid": Kind(build=lambda grid: Sigmoid(), sum="at most keys"),
    "Sigmoid, bias": Kind(build=lambda grid: Sigmoid(bias=-1.3), sum="at most keys"),
    "TopK": Kind(build=lambda grid: TopK(3), smooth=False),
    "Hard": Kind(build=lambda grid: Hard(), smooth=False),
    "Hard, Largest": Kind(build=lambda grid: Hard(Largest()), smooth=False),
    "Hard, Sampled": Kind(build=lambda grid: Hard(Sampled(seed=7)), by_place=True, smooth=False),
    "Hard, StraightThrough": Kind(build=lambda grid: Hard(StraightThrough(Sparsemax())), smooth=False),
    "Hard, StraightThrough, GumbelSoftmax": Kind(
        build=lambda grid: Hard(StraightThrough(GumbelSoftmax(seed=7))), by_place=True, smooth=False
    ),
    "GumbelSoftmax": Kind(build=lambda grid: GumbelSoftmax(seed=7, temperature=0.6), by_place=True),
    "Local": Kind(build=lambda grid: Local(centres(grid), reach=3.3), by_place=True, sum="at most 1"),
    "Local, PredictedCentre": Kind(
        build=lambda grid: Local(
            filled(PredictedCentre(WIDTH))(normal(1, grid.heads, grid.queries, WIDTH), grid.keys)
            .detach()
            .float()
            .double(),
            reach=2.7,
        ),
        by_place=True,
        sum="at most 1",
    ),
    "TalkingHeads": Kind(build=lambda grid: filled(TalkingHeads(grid.heads)), sum="any", parametric=True),
    "TalkingHeads, Sparsemax": Kind(
        build=lambda grid: filled(TalkingHeads(grid.heads, Sparsemax())), sum="any", parametric=True
    ),
}


def turned(rule: Rotary) -> Kind:
    """Queries and keys turned by where they stand; both count from 0."""
    return Kind(
        build=lambda grid: lambda x: rule(x, torch.arange(x.shape[2])),
        by_place=True,
    )


def added(vectors: Callable[[int], Tensor], parametric: bool = False) -> Kind:
    """Vectors added to queries and keys by where they stand."""
    return Kind(build=lambda grid: lambda x: x + vectors(x.shape[2]).to(x), by_place=True, parametric=parametric)


POSITIONS: Mapping[str, Kind] = {
    "none": Kind(build=lambda grid: lambda x: x),
    "Rotary": turned(Rotary(d_rotary=4)),
    "Rotary, neighbours": turned(Rotary(base=100.0, pairing="neighbours", d_rotary=2)),
    "Rotary, Interpolate": turned(Rotary(d_rotary=4, stretch=Interpolate(3.0))),
    "Rotary, LargerBase": turned(Rotary(d_rotary=4, stretch=LargerBase(3.0))),
    "Rotary, Yarn": turned(Rotary(d_rotary=4, stretch=Yarn(3.0, max_tokens=11))),
    "Rotary, LlamaStretch": turned(Rotary(d_rotary=4, stretch=LlamaStretch(3.0, max_tokens=11))),
    "sinusoidal": added(lambda n_tokens: sinusoidal(n_tokens, WIDTH)),
    "LearnedPositions": added(lambda n_tokens: filled(LearnedPositions(23, WIDTH))(n_tokens).detach()),
}

D_MODEL = 12

MODULES: Mapping[str, Callable[[], nn.Module]] = {
    "MultiHeadAttention": lambda: MultiHeadAttention(D_MODEL, 3),
    "MultiHeadAttention, grouped": lambda: MultiHeadAttention(D_MODEL, 6, n_key_heads=2),
    "MultiHeadAttention, Rotary": lambda: MultiHeadAttention(D_MODEL, 3, positions=Rotary()),
    "MultiHeadAttention, Cosine": lambda: MultiHeadAttention(D_MODEL, 3, score=Cosine()),
    "MultiHeadAttention, Distance": lambda: MultiHeadAttention(D_MODEL, 3, score=Distance(scale=0.1)),
    "MultiHeadAttention, RelativeBias": lambda: MultiHeadAttention(
        D_MODEL, 3, score=ScaledDot(bias=filled(RelativeBias(3, n_buckets=8, max_distance=13)).float())
    ),
    "MultiHeadAttention, Softmax, sinks": lambda: MultiHeadAttention(
        D_MODEL, 3, normalise=Softmax(sinks=nn.Parameter(normal(3, of="sinks").float()))
    ),
    "MultiHeadAttention, TalkingHeads": lambda: MultiHeadAttention(
        D_MODEL, 3, normalise=filled(TalkingHeads(3)).float()
    ),
    "LatentAttention": lambda: LatentAttention(D_MODEL, 3, d_latent=5, d_rotary=2),
    "LatentAttention, latent queries": lambda: LatentAttention(D_MODEL, 3, d_latent=5, d_rotary=2, d_query_latent=7),
}
"""Whole layers of attention, with their projections."""

STAGES: Mapping[str, Mapping[str, Kind]] = {
    "score": SCORES,
    "mask": MASKS,
    "normalise": NORMALISERS,
    "positions": POSITIONS,
}
EVERY = [(stage, name) for stage, kinds in STAGES.items() for name in kinds]


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """One product of all stages, with the numbers that it is tried on."""

    grid: Grid
    query: Tensor
    key: Tensor
    value: Tensor
    score: Score
    mask: Mask | Tensor | None
    normalise: Normaliser
    names: Mapping[str, str]

    def attend(self, **changed: Any) -> regard.Attended:
        """The call, with some of its arguments changed."""
        asked = {"score": self.score, "mask": self.mask, "normalise": self.normalise} | changed
        query, key, value = (asked.pop(name, getattr(self, name)) for name in ("query", "key", "value"))
        return attend(query, key, value, **asked)

    @property
    def kinds(self) -> list[Kind]:
        """What is said of each stage."""
        return [STAGES[stage][name] for stage, name in self.names.items()]

    @property
    def by_place(self) -> bool:
        """Whether any stage but the mask asks where keys stand."""
        return any(kind.by_place for kind in self.kinds)

    @property
    def from_start(self) -> bool:
        """Whether all that do count from the first key."""
        return all(kind.from_start for kind in self.kinds)

    @property
    def smooth(self) -> bool:
        """Whether every stage is."""
        return all(kind.smooth for kind in self.kinds)

    @property
    def rule(self) -> Mask:
        """The mask as a rule that can be joined with others."""
        return as_mask(self.mask) or Keep(torch.tensor(True))

    @property
    def keep(self) -> Tensor:
        """The mask as the matrix that it is, and nothing of what a score bars."""
        return self.rule.keep(self.grid.whole(), torch.device("cpu")).expand(self.grid.shape)

    @property
    def seen(self) -> Tensor:
        """Which keys each query sees in the end: what the mask keeps and the score does not bar."""
        barred = self.score.keep(self.grid.whole())
        return self.keep if barred is None else self.keep & barred

    def parameters(self) -> list[nn.Parameter]:
        """Whatever can be trained."""
        return [p for part in (self.score, self.normalise) for m in modules_in(part) for p in m.parameters()]

    def full(self) -> "Case":
        """The same with every item of the batch written out, and every key head for itself."""
        group = self.grid.heads // self.key.shape[1]
        query, key, value = (x.expand(self.grid.batch, -1, -1, -1) for x in (self.query, self.key, self.value))
        return replace(self, query=query, key=key.repeat_interleave(group, 1), value=value.repeat_interleave(group, 1))


def built(
    names: Mapping[str, str], sizes: tuple[int, int], heads: tuple[int, int], batch: tuple[int, int, int], number: int
) -> Case:
    """The product of the named kinds, of these sizes, on the numbers that belong to `number`."""
    grid = Grid(min(batch) and max(batch), heads[0], *sizes)  # no items where any has none
    with torch.random.fork_rng(devices=[]):  # first parameters are drawn; the same ones whatever ran before
        torch.manual_seed(0)
        parts = {stage: STAGES[stage][name].build(grid) for stage, name in names.items()}
    place = parts.pop("positions")
    query = place(normal(batch[0], heads[0], sizes[0], WIDTH, of=("query", number)))
    key = place(normal(batch[1], heads[1], sizes[1], WIDTH, of=("key", number)))
    value = normal(batch[2], heads[1], sizes[1], D_VALUE, of=("value", number))
    return Case(grid=grid, query=query, key=key, value=value, names=names, **parts)


def drawn(stage: str, name: str, number: int, fits: Callable[[Kind], bool] = lambda kind: True) -> Case:
    """A product around one kind, the others chosen by a number among those that fit a law."""
    choose = random.Random(f"{stage} {name} {number}")
    names = {
        other: name if other == stage else choose.choice([each for each, kind in kinds.items() if fits(kind)])
        for other, kinds in STAGES.items()
    }
    return built(names, choose.choice(SIZES), choose.choice(HEADS), choose.choice(BATCHES), number)


# What is public, and what of it is here

ROOMS = tuple(
    f"attention.{room}"
    for room in ("scores", "masks", "normalise", "biases", "positions", "stretches", "multi_head", "latent")
)
NO_KINDS = {"mask_mod", "log_weights_of_choice", "reinforce", "Mask", "Bias", "Stretch"}
NO_KINDS |= {"KeyValue", "MultiHeadRead", "Latents", "LatentRead"}
"""Public names of these rooms that are no kind: a mask for FlexAttention, a loss, what kinds share, records."""


def public() -> set[str]:
    """The public names of the rooms where kinds are kept."""
    stub = ast.parse(Path(regard.__file__).with_suffix(".pyi").read_text())
    imports = [node for node in ast.walk(stub) if isinstance(node, ast.ImportFrom) and node.module is not None]
    return {name.name for node in imports if str(node.module).startswith(ROOMS) for name in node.names}


def concrete(base: type) -> Iterator[type]:
    """Every class of the package that is such a thing and can be built."""
    for kind in base.__subclasses__():
        yield from concrete(kind)
        if kind.__module__.startswith("regard.") and not getattr(kind, "__abstractmethods__", None):
            yield kind


def parts_of(part: object) -> Iterator[object]:
    """A part and every part that it holds."""
    yield part
    if isinstance(part, nn.Module):
        for held in (*part.children(), *vars(part).values()):
            if isinstance(held, Score | Mask | Normaliser | Choice | Bias | Stretch):
                yield from parts_of(held)
    elif is_dataclass(part):
        for field in fields(part):
            yield from parts_of(getattr(part, field.name))


def registered() -> set[str]:
    """The names of all kinds in the registry: of the classes that are built, and those that a function of ours is."""
    grid = Grid(2, 2, 3, 3)
    every = [kind.build(grid) for kinds in (SCORES, MASKS, NORMALISERS) for kind in kinds.values()]
    classes = {type(held).__name__ for part in every for held in parts_of(part)}
    said = {word for kinds in (*STAGES.values(), MODULES) for name in kinds for word in name.split(", ")}
    return classes | said


BASES = (Score, Mask, Normaliser, Choice, Bias, Stretch)
