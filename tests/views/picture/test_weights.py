"""Pictures of a pattern or of weights: `regard.draw`, and what a notebook shows."""

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest
import torch
from IPython.core.formatters import DisplayFormatter
from matplotlib.collections import EllipseCollection
from matplotlib.figure import Figure
from refusals import refusal
from torch import Tensor

import regard
import regard.views.picture.weights as weights_module
from regard import Causal, InputError, attend
from regard.views.in_notebook import show_patterns
from regard.views.picture.canvas import weight_colours
from regard.views.picture.fonts import Fonts
from regard.views.picture.pattern import SQUARE_ROOT_SCALE
from regard.views.picture.weights import weights_figure


def test_every_weight_is_a_cell_of_its_colour(normal: Callable[..., Tensor]) -> None:
    query, key = normal(2, 3, 5, 4).mul(2), normal(2, 3, 5, 4)
    pattern = attend(query, key, key, mask=Causal()).pattern
    (image,) = (image for axes in weights_figure(pattern).axes for image in axes.get_images())
    shown = np.asarray(image.get_array())
    weights = torch.softmax((query @ key.mT / 2).masked_fill(torch.ones(5, 5).triu(1) > 0, -torch.inf), -1)
    masked = np.ma.masked_array(weights[0, 1].numpy(), np.triu(np.ones((5, 5), bool), 1))
    head = shown[:5, 6:11]  # the second of two panels side by side, one white cell between them
    np.testing.assert_allclose(head, weight_colours()(SQUARE_ROOT_SCALE(masked))[..., :3], atol=1e-6)


def test_a_notebook_shows_a_pattern_as_a_picture_unless_it_is_large(normal: Callable[..., Tensor]) -> None:
    x = normal(1, 1, 4097, 2)
    few = x[:, :, :50]
    display = DisplayFormatter()
    show_patterns(display)
    small, large = attend(few, few, few), attend(x, x, x)
    for part in (small, small.pattern):
        shown = display.format(part)[0]["image/png"]
        assert min(matplotlib.image.imread(BytesIO(shown)).shape[:2]) > 200
    for part in (large, large.pattern):
        assert "image/png" not in display.format(part)[0]


WORDS = ["the", "cat", "sat", "on", "the", "mat"]


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def drawn(monkeypatch: pytest.MonkeyPatch, *given: Any, **options: Any) -> Figure:
    """Return the figure that `regard.draw` would write for these arguments."""
    figures: list[Figure] = []
    monkeypatch.setattr(weights_module, "save_figure", lambda figure, path: figures.append(figure) or path)
    regard.draw(given[0], "a.png", *given[1:], **options)
    return figures[0]


def test_the_heads_have_numbers_and_the_axes_have_names(normal: Callable[..., Tensor]) -> None:
    x = normal(1, 3, 5, 4)
    shown = texts(weights_figure(attend(x, x, x).pattern))
    assert shown[1:] == ["keys →", "queries →", "head 0", "head 1", "head 2", *shown[6:]]


def test_one_head_is_drawn_with_its_words_and_weights(
    normal: Callable[..., Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    query, key = normal(2, 3, 4, 5), normal(2, 3, 6, 5)
    pattern = attend(query, key, key).pattern
    expected = (query[1, 2] @ key[1, 2].mT / 5**0.5).softmax(-1)
    for weights, options in ((pattern, {"batch": 1, "heads": [2]}), (expected, {})):
        figure = drawn(monkeypatch, weights, ["ein", "Hund", "lief", "."], WORDS, **options)
        assert texts(figure)[: 1 if options else 0] == ["head 2"][: len(options)]
        assert {"ein", "Hund", "lief", ".", *WORDS} <= {*texts(figure)}
        (circles,) = (part for axes in figure.axes for part in axes.collections if part.get_gid() == "weights")
        assert isinstance(circles, EllipseCollection)
        np.testing.assert_allclose(circles.get_widths().flatten(), 0.94 * expected.sqrt().flatten(), rtol=1e-4)
        assert not [patch for axes in figure.axes for patch in axes.patches if patch.get_gid() == "chosen-row"]


def test_of_many_words_those_of_one_query_and_its_strongest_keys_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = torch.zeros(61, 61)
    weights[40, 10:15] = 0.2
    words = [f"w{position}" for position in range(61)]
    written = texts(drawn(monkeypatch, weights, queries=words, keys=words))
    assert [text for text in written if text in words] == ["w40", "w10", "w11", "w12", "w13", "w14"]
    several = texts(drawn(monkeypatch, weights.expand(2, -1, -1)[:, :21, :21], queries=words[:21], keys=words[:21]))
    assert not set(several) & set(words)


def test_a_word_of_spaces_is_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = texts(drawn(monkeypatch, torch.eye(4), ["a", " ", "  ", ""], ["a", " ", "\n", "b c"]))
    assert [word for word in shown if len(word) < 4] == ["a", "␣", "␣␣", "", "a", "␣", "⏎", "b c"]


def test_letters_that_no_font_has_are_named_where_words_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights_module, "fonts_for", lambda text: Fonts(("DejaVu Sans",), frozenset("뱀") & {*text}))
    for n, is_named in ((3, True), (21, False)):
        caption = " ".join(texts(drawn(monkeypatch, torch.eye(n).expand(2, n, n), ["뱀"] * n, ["뱀"] * n)))
        assert ("□ stands for letters that no installed font has (U+BC40)" in caption) == is_named


def test_masked_weights_of_a_later_item_are_grey(
    normal: Callable[..., Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = normal(2, 2, 5, 4)
    figure = drawn(monkeypatch, attend(x, x, x, mask=Causal()).pattern, batch=1, heads=[1, 0])
    assert texts(figure)[3:5] == ["head 1", "head 0"]
    (image,) = (image for axes in figure.axes for image in axes.get_images())
    grey = weight_colours()(np.ma.masked_array([0.0], [True]))[0, :3]
    assert (np.isclose(np.asarray(image.get_array())[:5, :5], grey).all(-1) == np.triu(np.ones((5, 5)), 1)).all()


def test_the_steps_of_a_decoder_are_joined_by_cat(normal: Callable[..., Tensor], tmp_path: Path) -> None:
    query, key = normal(1, 1, 3, 5), normal(1, 1, 6, 5)
    steps = [attend(query[:, :, i : i + 1], key, key).pattern for i in range(3)]
    joined = torch.cat(steps, dim=2)
    torch.testing.assert_close(joined, attend(query, key, key).pattern.dense())
    assert regard.draw(joined, tmp_path / "a.svg", ["a", "b", "c"], WORDS).read_text().count("Circles: area") == 1
    regard.draw(steps[0], tmp_path / "b.png", keys=WORDS)
    assert min(matplotlib.image.imread(tmp_path / "b.png").shape[:2]) > 100


def test_what_cannot_be_drawn_is_refused(normal: Callable[..., Tensor], tmp_path: Path) -> None:
    x, path = normal(1, 2, 3, 4), tmp_path / "a.png"
    pattern = attend(x, x, x).pattern
    for given, options, message in (
        (pattern, {"queries": ["a"]}, "queries has 1 words for 3 queries; give a list with a word for each."),
        (pattern, {"keys": "abc"}, "keys has 3 words for 3 keys; give a list with a word for each."),
        (pattern, {"heads": [2]}, "heads=[2] of a pattern of 2 heads, counted from 0."),
        (pattern, {"heads": []}, "heads=[] of a pattern of 2 heads, counted from 0."),
        (pattern, {"batch": 1}, "batch=1 of a batch of 1; items are counted from 0."),
        (
            torch.ones(3),
            {},
            "weights of shape [3]; give [queries keys], [heads queries keys] or [batch heads queries keys], none of "
            "size 0.",
        ),
    ):
        assert refusal(InputError, regard.draw, given, path, **options) == message
    message = "weights is a list; give a Pattern or a floating-point tensor of weights."
    assert refusal(TypeError, regard.draw, [[1.0]], path) == message
