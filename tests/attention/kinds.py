"""The registry of all kinds of scores, biases, masks, normalisers and positions, for tests of the laws of all kinds.

    SCORES, BIASES, MASKS, NORMALISERS, POSITIONS     for each name, how the kind is built and which laws hold for it
    MODULES                                           whole layers
    Case                                              a call of `attend`: score, mask, normaliser, positions, numbers
    products                                          cases in which every kind comes at least once

A class of `regard.attention` that is missing here fails `test_laws.py`, which says where the class is and what to add.
"""

import ast
import inspect
import math
import random
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from importlib import import_module
from itertools import cycle, islice
from pathlib import Path
from pkgutil import walk_packages
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
    Forgetting,
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
    StickBreaking,
    StraightThrough,
    Stretch,
    TalkingHeads,
    TopK,
    Window,
    Yarn,
    attend,
    attention,
    sinusoidal,
)
from regard.attention.masks import as_mask
from regard.attention.normalise.hard import Choice
from regard.attention.normalise.normaliser import Normaliser
from regard.attention.scores.prepared import Prepared
from regard.attention.scores.score import Score
from regard.attention.stages import instances_in

WIDTH, D_VALUE = 5, 3
SIZES = [(5, 7), (7, 7), (1, 7), (11, 5), (3, 1), (2, 19), (17, 19)]
"""(queries, keys) of the cases: fewer and more keys than a CPU register holds, fewer and more queries than keys."""

HEADS = [(1, 1), (3, 3), (6, 3), (6, 2), (5, 1)]
"""(query heads, key heads) of the cases: one head, as many key heads as query heads, fewer, and one for all."""

BATCHES = [(2, 2, 2), (1, 2, 2), (2, 1, 1), (2, 1, 2), (1, 1, 1)]
"""The batch sizes of query, key and value; 1 is broadcast."""

AnyModule = TypeVar("AnyModule", bound=nn.Module)
Sum = Literal["1", "at most 1", "at most keys", "any"]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """How one kind is built for a grid, and which of the laws that only some kinds obey hold for it."""

    build: Callable[[Grid], Any]
    by_order: bool = False
    """Whether the order of the keys matters; leaving a key out changes nothing for the other keys."""
    by_position: bool = False
    """Whether the positions of the keys matter, so that leaving out a key in the middle changes the other keys."""
    from_start: bool = True
    """Whether positions count from the first key, so that leaving out the last keys changes nothing for the others."""
    sum: Sum = "1"
    smooth: bool = True
    """Whether weights have a gradient, and change only by rounding when scores change by rounding."""
    all_scores: bool = True
    """Whether every weight of a query depends on the scores of all its keys, so that NaN in one score reaches all."""
    parametric: bool = False
    """Whether the kind has trainable parameters."""

    @property
    def orderless(self) -> bool:
        """Whether the order of the keys does not matter."""
        return not (self.by_order or self.by_position)


@dataclass(frozen=True, kw_only=True)
class BiasKind(Kind):
    """How a bias is built for a grid, and a function that computes each of its numbers from the equation."""

    expected: Callable[[Any, Grid, int, int, int, int], float]
    """The equation: a function of bias, grid, batch item, head, query and key to the number added to this score."""
    by_position: bool = True


def random_of(*what: object) -> torch.Generator:
    """Return a random generator seeded by the given names, so that different names give different numbers."""
    return torch.Generator().manual_seed(zlib.crc32(repr(what).encode()))


def normal(*shape: int, of: object = "") -> Tensor:
    """Return normal random numbers in float64, seeded by the shape and the name `of`."""
    return torch.randn(shape, generator=random_of(shape, of), dtype=torch.float64)


def filled(module: AnyModule) -> AnyModule:
    """Return the module in float64 with random parameters, since initial values such as 0 may have no effect."""
    module.double()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.add_(normal(*parameter.shape, of=name))
    return module


def position(grid: Grid, offset: int | None, query: int) -> int:
    """Return the position of a query, counted as the positions of the keys are."""
    return query + (grid.keys - grid.queries if offset is None else offset)


def alibi_number(bias: Alibi, grid: Grid, b: int, h: int, i: int, j: int) -> float:
    """-slope · |i - j|; the slopes of 1, 2, 3, 5 and 6 heads are the paper's, written out."""
    below, above = {1: ([8], []), 2: ([4, 8], []), 3: ([4, 8], [2]), 5: ([2, 4, 6, 8], [1]), 6: ([2, 4, 6, 8], [1, 3])}[
        grid.heads
    ]
    slope = 2.0 ** -(below + above)[h] if bias.slopes is None else float(bias.slopes[h])
    return -slope * abs(j - position(grid, bias.offset, i))


def relative_number(bias: RelativeBias, grid: Grid, b: int, h: int, i: int, j: int) -> float:
    """Return the learned bias for the bucket of a distance; only small distances have a bucket of their own."""
    distance = j - position(grid, bias.offset, i)
    count = bias.n_buckets // 2 if bias.bidirectional else bias.n_buckets
    steps = abs(distance) if bias.bidirectional else max(0, -distance)
    near = count // 2
    growth = math.log(max(steps, near) / near) / math.log(bias.max_distance / near)
    bucket = steps if steps < near else min(count - 1, near + int(growth * (count - near)))
    return float(bias.by_bucket[bucket + (count if bias.bidirectional and distance > 0 else 0), h])


def forgetting_number(bias: Forgetting, grid: Grid, b: int, h: int, i: int, j: int) -> float:
    """The sum of the log gates from the key after j to the query's own position."""
    gates = bias.log_gates.expand(grid.batch, grid.heads, -1)[b, h].tolist()
    return float(sum(gates[j + 1 : max(0, position(grid, None, i) + 1)]))


def log_gates(*shape: int) -> Tensor:
    """Return logarithms of random forget gates between 0 and 1."""
    return nn.functional.logsigmoid(2 * normal(*shape, of="gates"))


BIASES: Mapping[str, BiasKind] = {
    "Alibi": BiasKind(build=lambda grid: Alibi(offset=1), expected=alibi_number),
    "Alibi, last": BiasKind(build=lambda grid: Alibi(), expected=alibi_number, from_start=False),
    "Alibi, slopes": BiasKind(
        build=lambda grid: Alibi(normal(grid.heads, of="slopes").abs(), offset=0), expected=alibi_number
    ),
    "RelativeBias": BiasKind(
        build=lambda grid: filled(RelativeBias(grid.heads, n_buckets=8, max_distance=13)),
        expected=relative_number,
        from_start=False,
        parametric=True,
    ),
    "RelativeBias, one way": BiasKind(
        build=lambda grid: filled(RelativeBias(grid.heads, n_buckets=6, max_distance=5, bidirectional=False, offset=2)),
        expected=relative_number,
        parametric=True,
    ),
    "Forgetting": BiasKind(
        build=lambda grid: Forgetting(log_gates(grid.batch, grid.heads, grid.keys)),
        expected=forgetting_number,
        from_start=False,
    ),
}


def with_bias(bias: BiasKind) -> Kind:
    return Kind(
        build=lambda grid: ScaledDot(bias=bias.build(grid)),
        by_position=True,
        from_start=bias.from_start,
        parametric=bias.parametric,
    )


def bias_tensor(grid: Grid) -> Tensor:
    """Return a bias tensor with a number for each head, query and key, of which a few are -∞."""
    bias = normal(grid.heads, grid.queries, grid.keys, of="bias")
    return bias.masked_fill(bias < -1.6, -math.inf)


def keep_tensor(grid: Grid) -> Tensor:
    """Return a random boolean mask for each batch item, head, query and key; some queries may attend to no key."""
    keep = torch.rand(grid.shape, generator=random_of(grid, "keep")) < 0.6
    keep[..., :1, :] &= torch.arange(grid.heads)[:, None, None] % 2 == 0
    return keep


def lengths(grid: Grid) -> Tensor:
    """Return the number of tokens of each batch item; the first item has none."""
    return torch.arange(grid.batch) * max(1, grid.keys - 2)


def centres(grid: Grid) -> Tensor:
    """Return a centre of local attention for each item, head and query."""
    return normal(grid.batch, grid.heads, grid.queries, of="centre").abs() * grid.keys / 2


SCORES: Mapping[str, Kind] = {
    "ScaledDot": Kind(build=lambda grid: ScaledDot()),
    "ScaledDot, scale": Kind(build=lambda grid: ScaledDot(scale=-0.3)),
    "Dot": Kind(build=lambda grid: Dot()),
    "ScaledDot, softcap": Kind(build=lambda grid: ScaledDot(softcap=1.7)),
    "ScaledDot, bias": Kind(build=lambda grid: ScaledDot(bias=bias_tensor(grid)), by_position=True, from_start=False),
    "ScaledDot, softcap, Alibi": Kind(
        build=lambda grid: ScaledDot(softcap=2.3, bias=Alibi()), by_position=True, from_start=False
    ),
    **{f"ScaledDot, {name}": with_bias(bias) for name, bias in BIASES.items()},
    "General": Kind(build=lambda grid: filled(General(WIDTH, WIDTH)), parametric=True),
    "Additive": Kind(build=lambda grid: filled(Additive(WIDTH, WIDTH, 7)), parametric=True),
    "Concat": Kind(build=lambda grid: filled(Concat(WIDTH, WIDTH, 7)), parametric=True),
    "Cosine": Kind(build=lambda grid: Cosine(scale=3.0)),
    "Cosine, learned": Kind(
        build=lambda grid: Cosine(nn.Parameter(1 + normal(grid.heads, of="scale").abs())), parametric=True
    ),
    "Distance": Kind(build=lambda grid: Distance(scale=0.3)),
    "Location": Kind(build=lambda grid: filled(Location(WIDTH, max(grid.keys, 23))), by_position=True, parametric=True),
    "LocationAware": Kind(build=lambda grid: filled(LocationAware(WIDTH, WIDTH, 7, width=3)), parametric=True),
    "LocationAware, After": Kind(
        build=lambda grid: filled(LocationAware(WIDTH, WIDTH, 7, n_filters=2, width=5)).after(
            normal(1, *grid.shape[1:], of="previous").softmax(dim=-1)
        ),
        by_position=True,
        from_start=False,
        parametric=True,
    ),
    "Additive, Prepared": Kind(build=lambda grid: Prepared(filled(Additive(WIDTH, 3, WIDTH))), parametric=True),
    "Shaw": Kind(build=lambda grid: filled(Shaw(WIDTH, 3)), by_position=True, from_start=False, parametric=True),
    "Shaw, from the start": Kind(
        build=lambda grid: filled(Shaw(WIDTH, 2, scale=0.7, offset=0)), by_position=True, parametric=True
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
"""The masks. The positions of keys matter to them, so a law that moves keys takes the mask as a boolean matrix."""

NORMALISERS: Mapping[str, Kind] = {
    "Softmax": Kind(build=lambda grid: Softmax()),
    "Softmax, cool": Kind(build=lambda grid: Softmax(temperature=0.4)),
    "Softmax, cold": Kind(build=lambda grid: Softmax(temperature=0.0), smooth=False),
    "Softmax, sinks": Kind(build=lambda grid: Softmax(sinks=normal(grid.heads, of="sinks")), sum="at most 1"),
    "Softmax, cold, sinks": Kind(
        build=lambda grid: Softmax(temperature=0.0, sinks=normal(grid.heads, of="sinks")), sum="at most 1", smooth=False
    ),
    "SoftmaxPlusOne": Kind(build=lambda grid: SoftmaxPlusOne(), sum="at most 1"),
    "Sparsemax": Kind(build=lambda grid: Sparsemax()),
    "Entmax": Kind(build=lambda grid: Entmax()),
    "Entmax, 1": Kind(build=lambda grid: Entmax(1.0)),
    "Entmax, 1.3": Kind(build=lambda grid: Entmax(1.3)),
    "Entmax, 2": Kind(build=lambda grid: Entmax(2.0)),
    "Entmax, 3": Kind(build=lambda grid: Entmax(3.0), smooth=False),  # a weight that has just left 0 rises infinitely
    "Sigmoid": Kind(build=lambda grid: Sigmoid(), sum="at most keys", all_scores=False),
    "Sigmoid, bias": Kind(build=lambda grid: Sigmoid(bias=-1.3), sum="at most keys", all_scores=False),
    "TopK": Kind(build=lambda grid: TopK(3), smooth=False),
    "Hard": Kind(build=lambda grid: Hard(), smooth=False),
    "Hard, Largest": Kind(build=lambda grid: Hard(Largest()), smooth=False),
    "Hard, Sampled": Kind(build=lambda grid: Hard(Sampled(seed=7)), by_position=True, smooth=False),
    "Hard, StraightThrough": Kind(build=lambda grid: Hard(StraightThrough(Sparsemax())), smooth=False),
    "Hard, StraightThrough, GumbelSoftmax": Kind(
        build=lambda grid: Hard(StraightThrough(GumbelSoftmax(seed=7))), by_position=True, smooth=False
    ),
    "GumbelSoftmax": Kind(build=lambda grid: GumbelSoftmax(seed=7, temperature=0.6), by_position=True),
    "Local": Kind(
        build=lambda grid: Local(centres(grid), reach=3.3),
        by_position=True,
        sum="at most 1",
        all_scores=False,  # the weight of a key farther away than `reach` is 0, whatever the scores
    ),
    "Local, PredictedCentre": Kind(
        build=lambda grid: Local(
            filled(PredictedCentre(WIDTH))(normal(1, grid.heads, grid.queries, WIDTH), grid.keys)
            .detach()
            .float()
            .double(),
            reach=2.7,
        ),
        by_position=True,
        sum="at most 1",
    ),
    "StickBreaking": Kind(build=lambda grid: StickBreaking(), by_order=True, sum="at most 1", all_scores=False),
    "TalkingHeads": Kind(build=lambda grid: filled(TalkingHeads(grid.heads)), sum="any", parametric=True),
    "TalkingHeads, Sparsemax": Kind(
        build=lambda grid: filled(TalkingHeads(grid.heads, Sparsemax())), sum="any", parametric=True
    ),
}


def turned(rule: Rotary) -> Kind:
    """Return the kind of rotary positions by this rule; the positions of queries and keys both count from 0."""
    return Kind(build=lambda grid: lambda x: rule(x, torch.arange(x.shape[2])), by_position=True)


def added(vectors: Callable[[int], Tensor], parametric: bool = False) -> Kind:
    """Return the kind of positions whose vectors are added to queries and keys."""
    return Kind(build=lambda grid: lambda x: x + vectors(x.shape[2]).to(x), by_position=True, parametric=parametric)


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
USUAL = {"score": "ScaledDot", "mask": "none", "normalise": "Softmax", "positions": "none"}
"""The kinds of a case that names no others."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """A call of `attend`: one kind of each stage, with the query, key and value."""

    grid: Grid
    query: Tensor
    key: Tensor
    value: Tensor
    score: Score
    mask: Mask | Tensor | None
    normalise: Normaliser
    names: Mapping[str, str]

    def attend(self, **changed: Any) -> regard.Attended:
        """Return the result of the call, with some of its arguments replaced by `changed`."""
        asked = {"score": self.score, "mask": self.mask, "normalise": self.normalise} | changed
        query, key, value = (asked.pop(name, getattr(self, name)) for name in ("query", "key", "value"))
        return attend(query, key, value, **asked)

    @property
    def kinds(self) -> list[Kind]:
        """Return the registry's entry of each stage."""
        return [STAGES[stage][name] for stage, name in self.names.items()]

    @property
    def smooth(self) -> bool:
        return all(kind.smooth for kind in self.kinds)

    @property
    def rule(self) -> Mask:
        """The mask as a `Mask` object, which can be joined with others by & and |."""
        rule = as_mask(self.mask)
        return Keep(torch.tensor(True)) if rule is None else rule

    @property
    def keep(self) -> Tensor:
        """The mask alone as a boolean matrix; keys that the score masks out with -∞ are True."""
        return self.rule.keep(self.grid.whole(), torch.device("cpu")).expand(self.grid.shape)

    @property
    def seen(self) -> Tensor:
        """The keys that each query attends to, as a boolean matrix: allowed by the mask, with a score above -∞."""
        barred = self.score.keep(self.grid.whole())
        return self.keep if barred is None else self.keep & barred

    def parameters(self) -> list[nn.Parameter]:
        return [
            p for part in (self.score, self.normalise) for m in instances_in(part, nn.Module) for p in m.parameters()
        ]

    def full(self) -> "Case":
        """Return the case with no shared batch item and no shared key head: each is copied."""
        group = self.grid.heads // self.key.shape[1]
        query, key, value = (x.expand(self.grid.batch, -1, -1, -1) for x in (self.query, self.key, self.value))
        return replace(self, query=query, key=key.repeat_interleave(group, 1), value=value.repeat_interleave(group, 1))


def built(
    names: Mapping[str, str],
    sizes: tuple[int, int] = (5, 7),
    heads: tuple[int, int] = (6, 3),
    batch: tuple[int, int, int] = (2, 2, 2),
    number: int = 0,
) -> Case:
    """Return a case: `names` of kinds by stage, queries and keys, heads and batch, and a seed of its random numbers.

    The other stages have their usual kinds; `heads` and `batch` are as in HEADS and BATCHES.
    """
    names = USUAL | names
    grid = Grid(min(batch) and max(batch), heads[0], *sizes)  # an empty batch if a tensor has one
    with torch.random.fork_rng(devices=[]):  # first parameters are drawn; the same ones whatever ran before
        torch.default_generator.manual_seed(0)
        parts = {stage: STAGES[stage][name].build(grid) for stage, name in names.items()}
    add_positions = parts.pop("positions")
    query = add_positions(normal(batch[0], heads[0], sizes[0], WIDTH, of=("query", number)))
    key = add_positions(normal(batch[1], heads[1], sizes[1], WIDTH, of=("key", number)))
    value = normal(batch[2], heads[1], sizes[1], D_VALUE, of=("value", number))
    return Case(grid=grid, query=query, key=key, value=value, names=names, **parts)


def products(
    law: str, fits: Callable[[Kind], bool] = lambda kind: True, stages: tuple[str, ...] = tuple(STAGES)
) -> list[dict[str, str]]:
    """Return the kinds' names of random cases, in which every kind of the stages that `fits` comes at least once."""
    choose = random.Random(law)
    fitting = {stage: [name for name, kind in kinds.items() if fits(kind)] for stage, kinds in STAGES.items()}
    columns = {stage: cycle(choose.sample(names, len(names))) for stage, names in fitting.items()}
    n_cases = max(len(fitting[stage]) for stage in stages)
    return [dict(zip(columns, names, strict=True)) for names in islice(zip(*columns.values(), strict=True), n_cases)]


def title(names: Mapping[str, str]) -> str:
    """Return the names of a combination's kinds as one line, the id of a test."""
    return " × ".join(names.values())


def drawn(names: Mapping[str, str], number: int) -> Case:
    """Return the case of the named kinds, with sizes, heads and batch chosen by `number`."""
    choose = random.Random(f"{names} {number}")
    return built(names, choose.choice(SIZES), choose.choice(HEADS), choose.choice(BATCHES), number)


# Whether every class is in the registry

REGISTRIES: Mapping[type, str] = {
    Score: "SCORES",
    Mask: "MASKS",
    Normaliser: "NORMALISERS",
    Choice: "NORMALISERS, as Hard(…)",
    Bias: "BIASES",
    Stretch: "POSITIONS, as Rotary(stretch=…)",
}
"""For each base class, the name of the registry that its subclasses belong to."""

NOT_KINDS = {
    *("Grid", "Pattern", "Steps", "Mask", "Bias", "Stretch"),
    *("Ask", "Attended", "Summary", "Top", "KeyValue", "MultiHeadRead", "Latents", "LatentRead"),
    *("attend", "explain_backend", "use_backend", "mask_mod", "reinforce", "log_weights_of_choice"),
    *("report_to", "summary_over_ranks"),
}
"""Public names of `regard.attention` that are no kind of attention: records, what kinds have in common, functions."""

NOT_PUBLIC = {"Rounded", "LocationAwareAfter", "Both", "Either", "Opposite"}
"""Classes without a public name: `attend` makes the first, `LocationAware.after` the second, & | ~ the others."""


def public_names() -> set[str]:
    """The public names that come from `regard.attention`."""
    stub = ast.parse(Path(regard.__file__).with_suffix(".pyi").read_text())
    imports = [node for node in ast.walk(stub) if isinstance(node, ast.ImportFrom) and node.module is not None]
    return {name.name for node in imports if str(node.module).startswith("attention.") for name in node.names}


def registered_names() -> set[str]:
    """Return the names of the classes that the registry builds, and the words in its keys, which name functions."""
    grid = Grid(2, 2, 3, 3)
    parts = [kind.build(grid) for kinds in (SCORES, MASKS, NORMALISERS) for kind in kinds.values()]
    classes = {type(inner).__name__ for part in parts for inner in parts_of(part)}
    return classes | {word for kinds in (*STAGES.values(), MODULES) for name in kinds for word in name.split(", ")}


def missing_entries() -> list[str]:
    """Return a message for each class that the registry or the public names lack: file, line and what to add."""
    root, registered, public = Path(regard.__file__).parents[2], registered_names(), public_names()
    messages: list[str] = []
    classes: set[str] = set()
    for base, registry in REGISTRIES.items():
        for kind in concrete_classes(base):
            classes.add(kind.__name__)
            path = Path(inspect.getfile(kind)).relative_to(root)
            place = f"{path}:{inspect.getsourcelines(kind)[1]}: class {kind.__name__}"
            if kind.__name__ not in registered | {"Rounded"}:
                messages.append(f"{place} is never tested: add an entry to {registry} in tests/attention/kinds.py")
            if kind.__name__ not in public | NOT_PUBLIC and not kind.__name__.startswith("_"):
                module = kind.__module__.removeprefix("regard")
                line = f"from {module} import {kind.__name__} as {kind.__name__}"
                messages.append(f"{place} is not public: add `{line}` to src/regard/__init__.pyi")
    messages += [
        f"regard.{name} is neither in the registry of tests/attention/kinds.py nor among its NOT_KINDS: add it to one"
        for name in sorted(public - registered - classes - NOT_KINDS)
    ]
    return messages


def concrete_classes(base: type) -> list[type]:
    """Return all concrete subclasses of `base` in `regard.attention`, also in modules that are not imported yet."""
    for module in walk_packages(attention.__path__, "regard.attention."):
        if not module.name.endswith("__main__") and ".statistics" not in module.name:
            import_module(module.name)
    ours = [kind for kind in subclasses(base) if kind.__module__.startswith("regard.attention.")]
    by_name = {kind.__name__: kind for kind in ours if not inspect.isabstract(kind)}
    return list(by_name.values())  # a dataclass with slots is made twice, and the first stays until memory is tidied up


def subclasses(base: type) -> Iterator[type]:
    """Every class under a class."""
    for kind in base.__subclasses__():
        yield kind
        yield from subclasses(kind)


def parts_of(part: object) -> Iterator[object]:
    """Yield an object and, at any depth, the objects in its fields."""
    yield part
    if isinstance(part, nn.Module):
        for inner in (*part.children(), *vars(part).values()):
            if isinstance(inner, tuple(REGISTRIES)):
                yield from parts_of(inner)
    elif is_dataclass(part):
        for field in fields(part):
            yield from parts_of(getattr(part, field.name))
