"""The page as a file: the numbers in it, their precision, and text that can never become markup."""

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from random_models import t5
from refusals import refusal

import regard
from regard import (
    Additive,
    Alibi,
    Causal,
    Cosine,
    Keep,
    RelativeBias,
    ScaledDot,
    Softmax,
    Sparsemax,
    Trace,
    Window,
    attend,
)
from regard.errors import InputError
from regard.tracing.focus import focus_on
from regard.views.page import data as page_data
from regard.views.page import page, write_page
from regard.views.page import weights as stored
from regard.views.page.blocks import encode_units

MARKUP = "A </script><script>alert(1)</script> & <!-- <b>bold</b> \u2028 $title"


class Parts(HTMLParser):
    """The elements of a page with their attributes, and the text in each script and style."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.inside: list[str] = []
        self.open = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.inside.append("")
        self.open = True

    def handle_endtag(self, tag: str) -> None:
        self.open = False

    def handle_data(self, data: str) -> None:
        if self.open:
            self.inside[-1] += data

    def named(self, name: str) -> str:
        """The text in the element with an id."""
        (text,) = (text for (_, at), text in zip(self.elements, self.inside, strict=True) if at.get("id") == name)
        return text

    def of(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        """The attributes and texts of all elements of a kind."""
        return [(at, text) for (have, at), text in zip(self.elements, self.inside, strict=True) if have == tag]


def described(html: str) -> dict[str, Any]:
    return json.loads(Parts(html).named("trace"))


def inflated(about: dict[str, Any], name: str) -> np.ndarray:
    return np.frombuffer(zlib.decompress(base64.b64decode(about["blocks"][name])), np.uint8)


def numbers(about: dict[str, Any], vectors: dict[str, Any]) -> np.ndarray:
    """Return vectors [heads tokens width], decoded from the page's data: integers of three bytes."""
    high, middle, low = inflated(about, vectors["block"]).reshape(3, -1).astype(int)
    integers = ((high ^ 128) - 128) * 65536 + middle * 256 + low
    return integers.reshape(vectors["heads"], -1, vectors["width"]) * vectors["step"]


def computed_weights(about: dict[str, Any], layer: dict[str, Any]) -> np.ndarray:
    """The weights [heads queries keys] by the definition of softmax attention, in float64."""
    query, key = (numbers(about, layer[name]) for name in ("query", "key"))
    key = key.repeat(layer["heads"] // len(key), axis=0)
    scores = np.einsum("hqd,hkd->hqk", query, key) * layer["scale"]
    n_queries, n_keys = scores.shape[1:]
    if layer["softcap"]:
        scores = layer["softcap"] * np.tanh(scores / layer["softcap"])
    if layer["bias"]:
        place = np.arange(n_keys)[None] - np.arange(n_queries)[:, None] + n_queries - 1
        bias = np.array(layer["bias"]["numbers"], dtype=float)  # None becomes NaN
        scores += np.where(np.isnan(bias), -np.inf, bias)[:, place]
    if layer["mask"]:
        bits = np.unpackbits(inflated(about, layer["mask"]))[: layer["masks"] * n_queries * n_keys]
        scores = np.where(bits.reshape(layer["masks"], n_queries, n_keys), scores, -np.inf)
    if layer["sinks"]:
        sinks = np.broadcast_to(np.array(layer["sinks"])[:, None, None], (*scores.shape[:2], 1))
        scores = np.concatenate([scores, sinks], axis=-1)
    exponentials = np.exp((scores - scores.max(axis=-1, keepdims=True)) / layer["temperature"])
    return (exponentials / exponentials.sum(axis=-1, keepdims=True))[..., :n_keys]


def weights_in(html: str) -> dict[tuple[str, int], np.ndarray]:
    """The weights [heads queries keys] of every layer, from what is in the page."""
    about = described(html)
    found = {}
    for kind, has in about["kinds"].items():
        shape = len(about[has["keys"]]), len(about[has["queries"]])
        for layer in has["layers"]:
            if "query" in layer:
                found[kind, layer["layer"]] = computed_weights(about, layer)
                continue
            high, low = inflated(about, layer["weights"]).reshape(2, -1).astype(int)
            units = (high * 256 + low).reshape(layer["heads"], *shape)
            found[kind, layer["layer"]] = units.transpose(0, 2, 1) / about["units"]
    return found


def with_attention(trace: Trace, **stages: Any) -> Trace:
    """A trace whose layers attend with other stages: score, mask, normalise."""
    steps = {
        layer: attend(p.query, p.key, p.value, **({"mask": p.mask} | stages)) for layer, p in trace.encoder.items()
    }
    return replace(trace, attended={"encoder": steps})


UNEVEN = torch.zeros(3, 23, 23)
UNEVEN[:, 5, 3] = 1e-9  # a bias that depends on more than the distance


def numbers_by_distance(queries: int, keys: int) -> torch.Tensor:
    """A bias [1 3 queries keys], as T5 computes it before attention."""
    numbers = torch.randn(3, queries + keys, generator=torch.Generator().manual_seed(5))
    return numbers[:, torch.arange(keys) - torch.arange(queries)[:, None] + queries][None]


def random_relative_bias() -> RelativeBias:
    bias = RelativeBias(3, n_buckets=6, max_distance=5)
    torch.nn.init.normal_(bias.by_bucket, generator=torch.Generator().manual_seed(3))
    return bias


def test_every_weight_follows_from_the_queries_and_keys_in_the_page(snake: Trace) -> None:
    found = weights_in(page(snake, focus_on(snake)))
    assert set(found) == {("encoder", layer) for layer in range(6)}
    for (_, layer), weights in found.items():
        assert np.abs(weights - snake.encoder[layer].dense()[0].double().numpy()).max() <= 1e-5


def test_values_follow_in_a_short_text_and_not_in_a_long_one(snake: Trace) -> None:
    about = described(page(snake, focus_on(snake)))
    for layer, pattern in zip(about["kinds"]["encoder"]["layers"], snake.encoder.values(), strict=True):
        assert np.abs(numbers(about, layer["value"]) - pattern.value[0].numpy()).max() <= 1e-5
    without_values = page_data.page_data(snake, focus_on(snake), max_values=1000)
    assert "value" not in without_values["kinds"]["encoder"]["layers"][0]


@pytest.mark.parametrize(
    "stages",
    [
        {"score": ScaledDot(scale=0.3, softcap=2.0)},
        {"score": ScaledDot(bias=Alibi())},
        {"score": ScaledDot(bias=Alibi(offset=2)), "mask": Causal()},
        {"score": ScaledDot(bias=random_relative_bias())},
        {"score": ScaledDot(bias=numbers_by_distance(7, 7))},
        {"score": Cosine(scale=5.0)},
        {"mask": Window(2, 1), "normalise": Softmax(temperature=0.5, sinks=torch.tensor([0.3, -1.0, 2.0]))},
    ],
    ids=["softcap", "alibi", "offset", "relative", "tensor", "cosine", "sinks"],
)
def test_every_kind_of_softmax_of_dot_products_is_computed(
    handmade: Callable[..., Trace], stages: dict[str, Any]
) -> None:
    trace = with_attention(handmade("a b c d e f g"), **stages)
    html = page(trace, focus_on(trace))
    assert "query" in described(html)["kinds"]["encoder"]["layers"][0]
    for (_, layer), weights in weights_in(html).items():
        assert np.abs(weights - trace.encoder[layer].dense()[0].detach().double().numpy()).max() <= 1e-5


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_bias_rounded_to_half_precision_is_computed(handmade: Callable[..., Trace], dtype: torch.dtype) -> None:
    trace = handmade("a b c d e f g", n_layers=1)
    query, key, value = (t.to(dtype) for t in (trace.encoder[0].query, trace.encoder[0].key, trace.encoder[0].value))
    slopes = torch.tensor([0.1, 0.23, 0.037])  # their multiples are not numbers of half precision
    step = attend(query, key, value, score=ScaledDot(bias=Alibi(slopes)))
    trace = replace(trace, attended={"encoder": {0: step}})
    html = page(trace, focus_on(trace))
    assert "query" in described(html)["kinds"]["encoder"]["layers"][0]
    given = step.pattern.dense()[0].double().numpy()
    assert np.abs(weights_in(html)["encoder", 0] - given).max() <= 1e-5


@pytest.mark.parametrize("lowest", [-torch.inf, torch.finfo(torch.float32).min])
@pytest.mark.parametrize(("queries", "keys"), [(7, 7), (3, 7)])
def test_a_key_is_masked_whose_bias_is_minus_infinity_or_the_lowest_number(
    queries: int, keys: int, lowest: float, translated: Trace, normal: Callable[..., Any]
) -> None:
    query, key, value = normal(1, 3, queries, 5), normal(1, 3, keys, 5), normal(1, 3, keys, 5)
    bias, later = numbers_by_distance(queries, keys), ~torch.ones(queries, keys).tril(keys - queries).bool()
    step = attend(query, key, value, score=ScaledDot(bias=bias.masked_fill(later, lowest)))
    source, target = translated.source[:1] * keys, translated.target[:1] * queries
    trace = replace(translated, source=source, target=target, attended={"cross": {0: step}})
    html = page(trace, focus_on(trace))
    (layer,) = described(html)["kinds"]["cross"]["layers"]
    assert layer["masks"] == 1
    bits = np.unpackbits(inflated(described(html), layer["mask"]))[: queries * keys].reshape(queries, keys)
    assert (bits == (~later).numpy()).all()
    weights = weights_in(html)["cross", 0]
    assert np.abs(weights - step.pattern.dense()[0].double().numpy()).max() <= 1e-5


def test_the_page_of_a_t5_computes_the_weights_of_every_kind(tokenizer: Any) -> None:
    trace = regard.trace(t5(), "It rains.", tokenizer=tokenizer, target="The river rises again")
    html = page(trace, focus_on(trace))
    kinds = described(html)["kinds"]
    assert all("query" in layer for kind in kinds.values() for layer in kind["layers"])
    assert [kind["layers"][0]["masks"] for kind in kinds.values()] == [0, 1, 0]  # only the decoder masks later tokens
    for (kind, layer), weights in weights_in(html).items():
        assert np.abs(weights - getattr(trace, kind)[layer].dense()[0].double().numpy()).max() <= 1e-5


def test_a_query_whose_keys_all_have_the_lowest_number_attends_to_all_of_them(normal: Callable[..., Any]) -> None:
    query, key, value = normal(1, 3, 2, 5), normal(1, 3, 4, 5), normal(1, 3, 4, 5)
    bias = torch.full((1, 1, 2, 4), torch.finfo(torch.float32).min)
    pattern = attend(query, key, value, score=ScaledDot(bias=bias)).pattern
    torch.testing.assert_close(pattern.dense(), torch.full((1, 3, 2, 4), 0.25))
    assert page_data.embed_mask(pattern, {}) == {"mask": None, "masks": 0}


def test_grouped_heads_share_the_keys_of_one(handmade: Callable[..., Trace]) -> None:
    trace = handmade("a b c d e", n_layers=1, n_heads=6)
    pattern = trace.encoder[0]
    grouped = attend(pattern.query, pattern.key[:, :2], pattern.value[:, :2])
    trace = replace(trace, attended={"encoder": {0: grouped}})
    html = page(trace, focus_on(trace))
    assert described(html)["kinds"]["encoder"]["layers"][0]["key"]["heads"] == 2
    assert np.abs(weights_in(html)["encoder", 0] - grouped.pattern.dense()[0].double().numpy()).max() <= 1e-5


def test_the_step_is_the_coarsest_that_keeps_every_weight(handmade: Callable[..., Trace]) -> None:
    trace = handmade(" ".join("abcdefghijklmnopqrstuvw"), n_layers=1)
    about = described(page(trace, focus_on(trace)))
    (layer,) = about["kinds"]["encoder"]["layers"]
    exact = trace.encoder[0].dense()[0].double().numpy()
    assert np.abs(computed_weights(about, layer) - exact).max() <= 6e-6
    steps = [8 * layer[name]["step"] for name in ("query", "key")]  # eight times as coarse is too coarse
    query, key = (np.rint(numbers(about, layer[n]) / s) * s for n, s in zip(("query", "key"), steps, strict=True))
    scores = np.einsum("hqd,hkd->hqk", query, key) * layer["scale"]
    weights = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    assert np.abs(weights - exact).max() > 1e-5


@pytest.mark.parametrize(
    "stages",
    [
        {"normalise": Sparsemax()},
        {"normalise": Softmax(temperature=0.0)},
        {"score": Additive(5, 5, 4)},
        {"score": ScaledDot(bias=torch.randn(3, 7, 7, generator=torch.Generator().manual_seed(1)))},
    ],
    ids=["sparsemax", "cold", "additive", "tensor"],
)
def test_other_weights_are_in_the_page_to_four_decimals(handmade: Callable[..., Trace], stages: dict[str, Any]) -> None:
    trace = with_attention(handmade("a b c d e f g"), **stages)
    html = page(trace, focus_on(trace))
    assert "weights" in described(html)["kinds"]["encoder"]["layers"][0]
    for (_, layer), weights in weights_in(html).items():
        assert np.abs(weights - trace.encoder[layer].dense()[0].detach().double().numpy()).max() <= 0.00005


def test_every_kind_of_attention_is_in_the_page_with_its_own_tokens(translated: Trace) -> None:
    html = page(translated, focus_on(translated))
    found = weights_in(html)
    assert {name: weights.shape for name, weights in found.items()} == {
        ("encoder", 0): (3, 5, 5),
        ("decoder", 0): (3, 6, 6),
        ("cross", 0): (3, 6, 5),
        ("cross", 1): (3, 6, 5),
    }
    for (kind, layer), weights in found.items():
        exact = getattr(translated, kind)[layer].dense()[0].double().numpy()
        assert np.abs(weights - exact).max() <= 1e-5
    assert described(html)["focus"]["kind"] == "cross"


@pytest.mark.parametrize("step", stored.SMALL_STEPS)
def test_small_weights_are_off_by_half_their_step_at_most_and_others_by_half_a_unit(
    handmade: Callable[..., Trace], step: int
) -> None:
    pattern = handmade(" ".join("abcdefghijklmnopqrstuvw"), n_layers=1).encoder[0]
    exact = pattern.dense()[0].double().numpy()
    error = np.abs(stored.quantised(pattern, step, "layer 0") / stored.UNITS - exact)
    small = exact < 0.01
    assert small.any()
    assert not small.all()
    assert error[small].max() <= step / 2 / stored.UNITS
    assert error[~small].max() <= 0.00005


def test_a_page_that_would_be_too_large_takes_the_finest_step_that_fits_and_says_so(
    handmade: Callable[..., Trace], monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = with_attention(handmade(" ".join("abcdefghijklmnopqrstuvw")), score=ScaledDot(bias=UNEVEN))
    size = {}
    for step in stored.SMALL_STEPS:
        blocks = [encode_units(stored.quantised(p, step, "")) for p in trace.encoder.values()]
        size[step] = sum(map(len, blocks))
    assert sorted(size.values(), reverse=True) == list(size.values())
    for step in stored.SMALL_STEPS:
        monkeypatch.setattr(stored, "PAGE_BYTES", size[step])
        assert described(page(trace, focus_on(trace)))["small"] == {"below": 100, "step": step}
    monkeypatch.setattr(stored, "PAGE_BYTES", 0)
    assert described(page(trace, focus_on(trace)))["small"] == {"below": 100, "step": 50}


def test_a_mask_is_embedded_once_with_its_heads_and_only_if_it_masks_something(handmade: Callable[..., Trace]) -> None:
    trace = handmade("a b c d e", mask=Causal(), kind="decoder")
    about = described(page(trace, focus_on(trace)))
    first, second = about["kinds"]["decoder"]["layers"]
    assert (first["mask"], first["masks"]) == (second["mask"], second["masks"])
    assert first["masks"] == 1
    keep = np.unpackbits(inflated(about, first["mask"]))[:25].reshape(5, 5)
    assert (keep == np.tril(np.ones((5, 5)))).all()
    allowed = torch.rand(1, 3, 5, 5, generator=torch.Generator().manual_seed(2)) < 0.7
    trace = handmade("a b c d e", n_layers=1, mask=Keep(allowed))
    about = described(page(trace, focus_on(trace)))
    (layer,) = about["kinds"]["encoder"]["layers"]
    assert layer["masks"] == 3
    assert (np.unpackbits(inflated(about, layer["mask"]))[:75].reshape(3, 5, 5) == allowed[0].numpy()).all()
    trace = handmade("a b c", n_layers=1, mask=Keep(torch.ones(1, 1, 1, 3, dtype=torch.bool)))
    (layer,) = described(page(trace, focus_on(trace)))["kinds"]["encoder"]["layers"]
    assert (layer["mask"], layer["masks"]) == (None, 0)


def test_the_page_opens_on_what_was_asked_for(snake: Trace, tmp_path: Path) -> None:
    path = write_page(snake, tmp_path / "snake.html", token="it", head="L3H1")
    assert path == tmp_path / "snake.html"
    assert described(path.read_text())["focus"] == {"kind": "encoder", "layer": 3, "head": 1, "query": 7}


def test_markup_in_the_text_stays_text(handmade: Callable[..., Trace]) -> None:
    trace = handmade(MARKUP)
    parts, plain = Parts(page(trace, focus_on(trace))), Parts(page(handmade("a b"), focus_on(handmade("a b"))))
    assert [tag for tag, _ in parts.elements] == [tag for tag, _ in plain.elements]
    about = json.loads(parts.named("trace"))
    assert about["text"] == MARKUP.replace("\u2028", "‹2028›")
    assert [token["text"] for token in about["source"]] == MARKUP.split()
    assert not set(parts.named("trace")) & set("<>&\u2028\u2029")
    (title,) = parts.of("title")
    assert title[1] == f"{' '.join(MARKUP.split())[:59]}… · regard"


def test_nothing_in_the_page_comes_from_outside(snake: Trace) -> None:
    html = page(snake, focus_on(snake))
    names = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml", "http://www.w3.org/1998/Math/MathML"}
    names |= {"http://www.w3.org/1999/xlink", "http://www.w3.org/XML/1998/namespace", "http://www.w3.org/2000/xmlns/"}
    assert set(re.findall(r"https?:[^\"'`]*", html)) <= names  # the names of XML's vocabularies, which nobody fetches
    assert re.findall(r"url\(|@import|\bimport\b[ (]|XMLHttpRequest|WebSocket", html) == []
    linked = [at for _, at in Parts(html).elements if {"src", "href", "srcset", "action", "data"} & set(at)]
    assert linked == [{"rel": "icon", "href": "data:,"}]  # no icon, so that the browser does not ask for one


def test_the_policy_allows_the_page_s_own_script_and_style_and_nothing_else(snake: Trace) -> None:
    parts = Parts(page(snake, focus_on(snake)))
    (script,) = [text for at, text in parts.of("script") if at["type"] == "module"]
    ((_, style),) = parts.of("style")
    (policy,) = [at["content"] for at, _ in parts.of("meta") if at.get("http-equiv") == "Content-Security-Policy"]
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (script, style)]
    assert policy == (
        f"default-src 'none'; img-src data:; script-src 'sha256-{hashes[0]}'; style-src 'sha256-{hashes[1]}'; "
        "base-uri 'none'; form-action 'none'"
    )


def test_the_script_never_writes_markup() -> None:
    sources = list((Path(__file__).parents[3] / "front" / "src").rglob("*.ts*"))
    assert len(sources) > 20
    for source in sources:
        written = r"[iI]nnerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|Function\("
        assert re.findall(written, source.read_text()) == [], source


def test_the_page_is_small_and_says_what_is_missing_without_javascript(snake: Trace) -> None:
    html = page(snake, focus_on(snake))
    said = "This page draws its weights with JavaScript, and JavaScript is switched off"
    assert f'<noscript><p class="notice">{said}' in html
    assert len(html.encode()) < 600_000  # small enough to mail


def test_more_weights_than_a_page_takes_are_refused(
    handmade: Callable[..., Trace], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_data, "MAX_WEIGHTS", 2_000)
    trace = handmade(" ".join("abcdefghijklmnopqrs"))
    assert refusal(InputError, page, trace, focus_on(trace)) == (
        "the trace has 2,166 weights, more than the 2,000 that one page takes; "
        "trace fewer layers (layers=…) or a shorter text."
    )


def test_nan_is_refused_and_never_written_as_a_number(handmade: Callable[..., Trace]) -> None:
    trace = handmade("a b c")
    trace.encoder[1].query.data[0, 0, 0, 0] = torch.nan
    assert refusal(InputError, page, trace, focus_on(trace, token="b", head="L0H0")) == (
        "the weights of encoder layer 1 contain NaN, which a page cannot show; check the model's parameters for NaN."
    )


def test_a_folder_is_no_page_and_a_head_that_is_not_there_leaves_no_file(
    handmade: Callable[..., Trace], tmp_path: Path
) -> None:
    message = f"cannot write {tmp_path}: it is a folder; name a file in it."
    assert refusal(InputError, write_page, handmade("a b c"), tmp_path) == message
    assert refusal(InputError, write_page, handmade("a b c"), tmp_path / "page.html", head="L0H7") == (
        "no head 'L0H7'; heads are named like L3H1 and run from L0H0 to L1H2; nearest: L0H2, L0H1, L0H0."
    )
    assert list(tmp_path.iterdir()) == []


def test_control_characters_are_seen(handmade: Callable[..., Trace]) -> None:
    about = handmade("a \x1b[31mred")
    trace = replace(about, model="\x1bm", text="a\n\x1b[31mred", target_text="\x9b")
    html = page(trace, focus_on(trace))
    assert {name: described(html)[name] for name in ("model", "text", "target_text")} == {
        "model": "‹1B›m",
        "text": "a\n‹1B›[31mred",
        "target_text": "‹9B›",
    }
    assert [token["text"] for token in described(html)["source"]] == ["a", "‹1B›[31mred"]
    assert "<title>a ‹1B›[31mred · regard</title>" in html
    assert "\x1b" not in html
    untitled = replace(trace, text="")  # of a picture or a recording alone
    assert "<title>regard</title>" in page(untitled, focus_on(untitled))
