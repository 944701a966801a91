"""All heads side by side: every cell is its weight, in its place."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from pictures import assert_inside, caption, texts
from refusals import refusal

from regard import Causal, InputError
from regard.tracing.focus import focus_on
from regard.views.picture.canvas import MASKED, weight_colours
from regard.views.picture.fonts import fonts_for
from regard.views.picture.heads import heads_figure, mosaic_of, select_heads, write_heads
from regard.views.picture.pattern import SQUARE_ROOT_SCALE
from regard.views.picture.trace import figure


def image_of(picture):
    return next(image for axes in picture.axes for image in axes.images if image.get_gid() == "patterns").get_array()


@pytest.mark.parametrize("layer", [None, 1])
def test_every_cell_is_the_colour_of_its_weight(handmade, layer):
    trace = handmade("a b c d e", n_layers=2, n_heads=3, mask=Causal(), kind="decoder")
    mosaic, image = mosaic_of(select_heads(trace, layer, None), layer is not None), image_of(heads_figure(trace, layer))
    grey = [int(MASKED[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    free = np.ones(image.shape[:2], bool)
    for place, head in zip(mosaic.places, mosaic.heads, strict=True):
        top, left = mosaic.corner(place)
        expected = weight_colours()(SQUARE_ROOT_SCALE(head.weights.numpy()))[..., :3]
        expected[np.triu_indices(5, 1)] = grey
        assert_allclose(image[top : top + 5, left : left + 5], expected, atol=1e-6)
        free[top : top + 5, left : left + 5] = False
    assert_allclose(image[free], 1.0)
    assert len(mosaic.heads) == (6 if layer is None else 3)


def test_layers_are_rows_and_heads_are_columns(handmade):
    trace = handmade("a b c", n_layers=3, n_heads=5)
    mosaic = mosaic_of(select_heads(trace, None, None), one_layer=False)
    for place, head in zip(mosaic.places, mosaic.heads, strict=True):
        top, left = mosaic.corner(place)
        assert (top // (3 + mosaic.below), left // (3 + mosaic.between)) == (head.layer, head.head)
    assert set("01234") <= set(texts(heads_figure(trace)))


def test_the_heads_of_a_layer_bear_their_names_and_their_tokens(handmade):
    written = texts(heads_figure(handmade("one two three", n_layers=2, n_heads=5), layer=1))
    assert [text for text in written if text.startswith("L1")] == [f"L1H{head}" for head in range(5)]
    assert written.count("two") == 5  # two rows of patterns at the left, three columns at the top
    assert "encoder · layer 1 · 5 heads · one two three" in written


def test_long_texts_are_pooled_and_say_so(handmade):
    trace = handmade(" ".join(f"w{i}" for i in range(211)), n_layers=1, n_heads=23)
    note = "In each, 211 × 211 weights pooled to 69 × 69 cells, each showing its largest."
    assert note in caption(heads_figure(trace))
    mosaic = mosaic_of(select_heads(trace, None, None), one_layer=False)
    assert_allclose(mosaic.cells[0].weights, trace.encoder[0].pooled(69, 69, "max")[0])


def test_the_mask_is_mentioned_where_there_is_one(handmade):
    assert "Grey: hidden by the mask." in caption(heads_figure(handmade("a b", mask=Causal(), kind="decoder")))
    assert "Grey" not in caption(heads_figure(handmade("a b")))


def test_the_same_trace_gives_the_same_bytes(handmade, tmp_path):
    trace = handmade("a b c", mask=Causal(), kind="decoder")
    one, other = (write_heads(trace, tmp_path / f"{name}.svg").read_bytes() for name in "ab")
    assert one == other


def test_nothing_is_cut_off_at_the_edge(handmade):
    for layer in (None, 0):
        assert_inside(heads_figure(handmade("interdisciplinarity " * 13, n_layers=2, n_heads=7), layer))


def test_no_such_layer(handmade, tmp_path):
    assert (
        refusal(InputError, write_heads, handmade("a b", n_layers=3), tmp_path / "a.png", layer=7)
        == "no layer 7 to draw: layers run from 0 to 2; nearest: 2."
    )
    assert list(tmp_path.iterdir()) == []


def test_another_ending(handmade, tmp_path):
    message = f"cannot tell what kind of picture {tmp_path / 'a.gif'} is; its name must end in .png, .svg or .pdf."
    assert refusal(InputError, write_heads, handmade("a b"), tmp_path / "a.gif") == message


def test_the_fonts_have_the_letters_of_the_text_too(handmade, tmp_path):
    trace = replace(handmade("a b c"), text="a\n\x1b文 c")
    write_heads(trace, tmp_path / "a.png")  # a warning of matplotlib's would be an error here
    assert f"encoder · 2 layers × 3 heads · a ‹1B›{fonts_for('文').drawable('文')} c" in texts(heads_figure(trace))


def test_layers_of_different_numbers_of_heads(uneven):
    mosaic = mosaic_of(select_heads(uneven, None, None), one_layer=False)
    assert list(mosaic.places) == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (1, 3)]
    figure_of_all = heads_figure(uneven)
    assert "encoder · 2 layers of 2 to 4 heads · a b c" in texts(figure_of_all)
    (rows, columns), image = mosaic.pattern_size, image_of(figure_of_all)
    top, left = mosaic.corner((0, 3))
    assert (image[top : top + rows, left : left + columns] == 1).all(), "no pattern where there is no head"


def test_any_kind_can_be_drawn(translated, tmp_path):
    for kind, sizes in ((None, "cross · 2 layers × 3 heads · "), ("encoder", "encoder · 1 layer × 3 heads · ")):
        assert any(text.startswith(sizes) for text in texts(heads_figure(translated, kind=kind)))
    assert (
        refusal(InputError, translated.heads_figure, tmp_path / "a.png", kind="both")
        == "no attention of kind 'both'; this trace has encoder, decoder, cross."
    )


def test_the_target_s_side_is_explained(encoder_decoder, handmade):
    said = "A query is a token just read; its weights help to predict the token after it."
    assert said in caption(heads_figure(encoder_decoder))
    assert said in caption(figure(encoder_decoder, focus_on(encoder_decoder)))
    assert said not in caption(heads_figure(handmade("x y", mask=Causal(), kind="decoder")))


def test_without_a_text_the_title_ends_with_the_number_of_heads(handmade):
    written = texts(heads_figure(replace(handmade("a b c", n_layers=2, n_heads=3), text="")))
    assert "encoder · 2 layers × 3 heads" in written


def test_the_caption_says_what_a_panel_and_its_darkness_are(handmade):
    assert caption(heads_figure(handmade("a b"))).startswith(
        "Each panel is a head: rows are queries, columns are keys, the first token top left. "
        "Darkness grows with the square root of the weight."
    )
