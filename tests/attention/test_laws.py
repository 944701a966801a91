"""Tests of the laws of all kinds of attention, on combinations of scores, masks, normalisers, positions and heads.

Each law is tested on combinations in which every kind of the registry comes at least once. Sizes and numbers follow
from the combination. In half of them gradients are required, for which other backends may be chosen.
"""

import math
import zlib
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from kinds import EVERY, NORMALISERS, STAGES, Kind, built, concrete_classes, drawn, missing_entries, products, title
from refusals import CHANGED_TENSOR, refusal
from torch.testing import assert_close

import regard.attention.backends.fused as fused_backend
import regard.attention.scores.tiling as tiling_module
import regard.attention.weights as weights_module
from regard import Bias, Causal, GumbelSoftmax, Hard, Keep, Sampled, Softmax, TalkingHeads, use_backend
from regard.attention.backends.choose import BACKENDS


def law(fits: Callable[[Kind], bool] = lambda kind: True, stages: tuple[str, ...] = tuple(STAGES)):
    """Parametrise a test of a law over combinations of the kinds for which the law holds, each kind at least once."""

    def decorate(test):
        def tried(names):
            number = zlib.crc32(f"{test.__name__} {names}".encode())
            with torch.set_grad_enabled(number % 2 == 0):
                test(drawn(names, number), number)

        tried.__name__ = test.__name__
        cases = products(test.__name__, fits, stages)
        return pytest.mark.parametrize("names", cases, ids=title)(tried)

    return decorate


def same(found, truth, case):
    """Fail unless both results agree in float64: to 12 digits if all kinds of the case are smooth."""
    allowed = 1e-12 if case.smooth else 1e-7
    assert_close(found, truth, rtol=allowed, atol=allowed)


# The registry itself


def test_every_kind_is_public_and_in_the_registry():
    assert not (missing := missing_entries()), "\n".join(missing)


def test_a_class_that_is_in_no_registry_is_named_with_its_file_and_line(monkeypatch):
    assert "Alibi" in {kind.__name__ for kind in concrete_classes(Bias)}
    known = missing_entries()
    monkeypatch.delitem(NORMALISERS, "StickBreaking")
    (message,) = set(missing_entries()) - set(known)
    file, line, rest = message.split(":", 2)
    assert file == "src/regard/attention/normalise/stick_breaking.py"
    assert int(line) > 1
    assert rest == " class StickBreaking is never tested: add an entry to NORMALISERS in tests/attention/kinds.py"


# Rows


@law()
def test_rows_sum_to_what_is_promised_and_barred_keys_have_no_weight(case, number):
    seen, attended = case.seen, case.attend()
    weights, blind, promised = attended.pattern.dense(), ~seen.any(-1), NORMALISERS[case.names["normalise"]].sum
    total = weights.sum(-1)
    assert not weights.isnan().any()
    assert not weights[~seen].any()
    assert case.normalise.signed or bool((weights >= 0).all())
    if promised == "1":
        same(total, (~blind).to(total), case)
    elif promised != "any":
        most = 1.0 if promised == "at most 1" else seen.sum(-1)
        assert bool((total <= most + torch.full_like(total, 1e-12)).all())
    assert not attended.context[blind].any()
    assert case.normalise.signed or not attended.pattern.entropy()[blind].any()
    assert bool((attended.pattern.top(1).keys[blind] == -1).all())


# Keys


@law(lambda kind: not kind.by_position)
def test_a_masked_key_is_as_good_as_absent(case, number):
    keys = range(case.grid.keys)
    kept = [j for j in keys if j % 3 != number % 3] or [0]
    hidden = torch.tensor([j not in kept for j in keys])
    masked = case.attend(mask=Keep(case.keep & ~hidden))
    absent = case.attend(key=case.key[:, :, kept], value=case.value[:, :, kept], mask=Keep(case.keep[..., kept]))
    same(masked.context, absent.context, case)
    same(masked.pattern[..., kept], absent.pattern.dense(), case)


@law(lambda kind: not kind.by_position or kind.from_start)
def test_keys_masked_at_the_end_are_as_good_as_absent(case, number):
    n = max(1, case.grid.keys - 1 - number % 3)
    masked = case.attend(mask=Keep(case.keep & (torch.arange(case.grid.keys) < n)))
    absent = case.attend(key=case.key[:, :, :n], value=case.value[:, :, :n], mask=Keep(case.keep[..., :n]))
    same(masked.context, absent.context, case)
    same(masked.pattern[..., :n], absent.pattern.dense(), case)


@law()
def test_what_a_masked_key_holds_does_not_matter(case, number):
    j = number % case.grid.keys
    mask = case.rule & Keep(torch.arange(case.grid.keys) != j)
    key, value = case.key.clone(), case.value.clone()
    key[:, :, j], value[:, :, j] = -7.0, 1e9
    there, here = case.attend(mask=mask, key=key, value=value), case.attend(mask=mask)
    same(there.context, here.context, case)
    same(there.pattern.dense(), here.pattern.dense(), case)


@law()
def test_the_future_never_leaks(case, number):
    grid = case.grid
    now = number % (grid.keys + 1)
    past = max(0, min(now - grid.offset, grid.queries))  # queries whose own position lies before `now`
    query, key, value = case.query.clone(), case.key.clone(), case.value.clone()
    query[:, :, past:], key[:, :, now:], value[:, :, now:] = 7.0, -7.0, 1e9
    there = case.attend(mask=case.rule & Causal(), query=query, key=key, value=value)
    here = case.attend(mask=case.rule & Causal())
    same(there.context[:, :, :past], here.context[:, :, :past], case)
    same(there.pattern[:, :, :past], here.pattern[:, :, :past], case)


@law(lambda kind: kind.orderless)
def test_the_order_of_the_keys_does_not_matter_unless_a_kind_says_so(case, number):
    order = torch.randperm(case.grid.keys, generator=torch.Generator().manual_seed(number))
    there = case.attend(key=case.key[:, :, order], value=case.value[:, :, order], mask=Keep(case.keep[..., order]))
    here = case.attend()
    same(there.context, here.context, case)
    same(there.pattern.dense(), here.pattern.dense()[..., order], case)


@pytest.mark.parametrize(
    ("stage", "name"), [(stage, name) for stage, name in EVERY if stage != "mask" and not STAGES[stage][name].orderless]
)
def test_the_order_of_the_keys_matters_where_a_kind_says_so(stage, name):
    case = built({stage: name}, heads=(3, 3))
    if stage == "positions":  # positions are in the keys already: these stand elsewhere
        moved = built({}, heads=(3, 3))
        assert not torch.allclose(moved.attend().context, case.attend().context, atol=1e-3)
    else:
        there = case.attend(key=case.key.flip(2), value=case.value.flip(2))
        assert not torch.allclose(there.context, case.attend().context, atol=1e-3)


# Items and heads


@law(lambda kind: kind.sum != "any")
def test_each_item_and_head_stands_alone(case, number):
    case = case.full()
    item, head = number % case.grid.batch, number % case.grid.heads
    elsewhere = torch.ones(case.grid.batch, case.grid.heads, dtype=torch.bool)
    elsewhere[item, head] = False
    query, key, value = (x.clone() for x in (case.query, case.key, case.value))
    for tensor in (query, key, value):
        tensor[elsewhere] = math.nan
    there, here = case.attend(query=query, key=key, value=value), case.attend()
    same(there.context[item, head], here.context[item, head], case)
    same(there.pattern[item, head], here.pattern[item, head], case)


@law()
def test_one_item_and_one_key_head_serve_as_if_they_were_written_out(case, number):
    full = case.full()
    same(case.attend().context, full.attend().context, case)
    same(case.attend().pattern.dense(), full.attend().pattern.dense(), case)


@pytest.mark.parametrize("name", [name for name in NORMALISERS if name != "Local, PredictedCentre"])
def test_nan_in_a_key_shows_in_the_heads_that_read_this_key_and_in_no_others(name):
    """Except for the local windows of PredictedCentre, which leave out the key."""
    case = built({"normalise": name})
    case.key[1, 2, 3] = math.nan  # the key of heads 4 and 5
    found, expected = case.attend().pattern.dense().isnan(), torch.zeros(2, 6, 5, 7, dtype=torch.bool)
    expected[1, slice(None) if case.normalise.across_heads else slice(4, 6)] = True
    if not NORMALISERS[name].all_scores:
        found, expected = found.any(-1), expected.any(-1)
    assert torch.equal(found, expected)


# Temperature


@law(stages=("score", "mask", "positions"))
def test_temperature_goes_from_the_largest_to_the_mean(case, number):
    cold, coldest, hottest = (
        case.attend(normalise=Softmax(temperature=temperature)) for temperature in (1e-9, 0.0, 1e9)
    )
    assert_close(cold.context, coldest.context)
    seen = case.seen.double()
    mean = seen / seen.sum(-1, keepdim=True).clamp_min(1.0)
    assert_close(hottest.pattern.dense(), mean, rtol=1e-6, atol=1e-6)  # scores still differ by about 1e-8
    chosen = case.attend(normalise=Hard()).pattern.dense()
    assert_close(coldest.pattern.dense(), chosen)
    sampled = case.attend(normalise=Hard(Sampled(seed=3))).pattern.dense()
    assert_close(case.attend(normalise=GumbelSoftmax(seed=3, temperature=1e-9)).pattern.dense(), sampled)


# What the pattern shows is what was read with, however it was computed


@law()
def test_the_pattern_is_what_the_context_was_read_with(case, number):
    attended = case.attend()
    pattern, weights, grid = attended.pattern, attended.pattern.dense(), case.grid
    value = case.full().value
    same(attended.context, pattern.apply(case.value), case)
    same(attended.context, weights @ value, case)
    vector = case.query[..., 0]
    same(pattern.back(vector), (vector[:, :, None] @ weights)[:, :, 0], case)
    b, h, i = number % grid.batch, number % grid.heads, number % grid.queries
    same(pattern[b, h, i], weights[b, h, i], case)
    same(pattern[:, [h, 0], i:, ::2], weights[:, [h, 0], i:, ::2], case)
    same(pattern[b, ..., [-1, 0]], weights[b, ..., [-1, 0]], case)
    same(pattern.scores(b, h, slice(i, None), slice(1, None, 2)), pattern.scores()[b, h, i:, 1::2], case)
    same(pattern.received(), weights.sum(2), case)
    same(pattern.pooled(1, 1, "sum")[..., 0, 0], weights.sum((2, 3)), case)
    same(pattern.pooled(grid.queries, grid.keys), weights, case)
    if not case.normalise.signed:  # else: test_talking_heads.py
        same(pattern.top(grid.keys).weights, weights.sort(dim=-1, descending=True).values, case)
        same(pattern.entropy(), torch.special.entr(weights).sum(-1), case)
    steps = pattern.steps(b, h, i)
    same(steps.weights, weights[b, h, i], case)
    same(steps.context, attended.context[b, h, i], case)
    same(steps.scores, pattern.scores()[b, h, i], case)


@law()
def test_the_size_of_a_block_does_not_show(case, number):
    whole, grid, queries = case.attend(), case.grid, 1 + number % 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fused_backend, "BLOCK_QUERIES", queries)
        patch.setattr(weights_module, "BLOCK_WEIGHTS", queries * grid.batch * grid.heads * grid.keys)
        patch.setattr(tiling_module, "TILE_NUMBERS", 9 * grid.batch * grid.heads * 7)  # 3 queries by 3 keys
        cut = case.attend()
        same(cut.context, whole.context, case)
        same(cut.pattern.dense(), whole.pattern.dense(), case)
        same(cut.pattern.received(), whole.pattern.received(), case)
        same(cut.pattern.apply(case.value), whole.context, case)


@pytest.mark.parametrize("names", products("threads")[:4], ids=title)
def test_the_number_of_threads_does_not_show(names):  # for the C kernel, see statistics/test_engine.py
    case = built(names | {"positions": "none"}, (67, 131), (3, 1))  # enough weights for two threads
    one = case.attend()
    torch.set_num_threads(2)
    try:
        two = case.attend()
        same(two.context, one.context, case)
        same(two.pattern.dense(), one.pattern.dense(), case)
    finally:
        torch.set_num_threads(1)


@law()
def test_every_backend_that_does_the_call_gives_the_same(case, number):
    here = case.attend()
    for name in ("fused", "math", "tiled", "reference"):
        if BACKENDS[name].unsupported_reason(here.pattern.call, 0.0) is None:
            with use_backend(name):
                there = case.attend()
            assert there.backend == name
            same(there.context, here.context, case)


def tensors_inside(part):
    """Return the tensors that a stage holds, wherever: in its attributes, and in theirs."""
    if isinstance(part, torch.Tensor):
        return [part]
    names = getattr(part, "__dataclass_fields__", ())
    inside = [*getattr(part, "__dict__", {}).values(), *(getattr(part, name) for name in names)]
    for values in [value for value in inside if isinstance(value, dict)]:
        inside += values.values()  # the parameters, buffers and modules of a module
    return [tensor for value in inside if value is not None for tensor in tensors_inside(value)]


HOLDERS = [(stage, name) for stage, name in EVERY if stage != "positions"]


@pytest.mark.parametrize(("stage", "name"), [*HOLDERS, ("normalise", "TalkingHeads, sinks")])
def test_a_pattern_of_changed_tensors_of_any_stage_is_refused(stage, name):
    case = built({stage: name} if name in STAGES[stage] else {})
    if name == "TalkingHeads, sinks":
        case = replace(case, normalise=TalkingHeads(6, Softmax(sinks=torch.zeros(6))))
    for tensor in tensors_inside(getattr(case, stage)):
        pattern = case.attend().pattern
        pattern[0]
        with torch.no_grad():
            tensor.copy_(tensor.clone())
        assert refusal(ValueError, pattern.__getitem__, 0) == CHANGED_TENSOR


# Gradients


@law(lambda kind: kind.smooth)
def test_gradients_of_the_context_in_float64(case, number):
    leaves = [x.detach().clone().requires_grad_() for x in (case.query, case.key, case.value)]
    parameters = case.parameters()

    def context(query, key, value, *_):
        attended = case.attend(query=query, key=key, value=value)
        return attended.context, attended.pattern.apply(value)

    with torch.enable_grad():
        assert torch.autograd.gradcheck(context, (*leaves, *parameters), fast_mode=True)
