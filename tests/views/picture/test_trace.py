"""Tests of the picture of a trace: what is drawn equals the pattern; files are complete, legible and reproducible."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgba
from matplotlib.image import imread
from numpy.testing import assert_allclose
from pictures import assert_inside, caption, texts
from refusals import refusal

from regard import Causal, InputError, Mask, Trace, attend
from regard.tracing.focus import focus_on, strongest_other_words
from regard.tracing.tokens.readable_tokens import Token
from regard.views.picture.canvas import MASKED, save_figure, weight_colours
from regard.views.picture.fonts import fonts_for
from regard.views.picture.pattern import pattern_cells
from regard.views.picture.sentence import lay_out_sentence
from regard.views.picture.trace import figure, write_figure

MAGIC = {".png": b"\x89PNG\r\n\x1a\n", ".svg": b"<?xml", ".pdf": b"%PDF-"}


def drawn(trace, **chosen):
    return figure(trace, focus_on(trace, **chosen))


def part(picture, gid):
    found = [artist for axes in picture.axes for artist in axes.get_children() if artist.get_gid() == gid]
    assert len(found) == 1, f"{len(found)} parts are called {gid}"
    return found[0]


def beside(picture):
    """Return the names of rows and columns that are written beside the pattern."""
    return [text.get_text() for text in part(picture, "weights").axes.texts]


def cross(n_source, n_target, mask=None):
    source = tuple(Token(f"s{i}", f"s{i}") for i in range(n_source))
    target = tuple(Token(f"t{i}", f"t{i}") for i in range(n_target))
    generator = torch.Generator().manual_seed(3)
    query = torch.randn(1, 2, n_target, 5, generator=generator)
    key, value = torch.randn(2, 1, 2, n_source, 5, generator=generator)
    steps = {"cross": {0: attend(query, key, value, mask=mask)}}
    return Trace("m", " ".join(map(str, source)), " ".join(map(str, target)), source, target, steps)


@pytest.fixture(scope="module")
def it(snake):
    """The snake's picture: `it` in L3H1."""
    return drawn(snake, token="it", head="L3H1")


@pytest.fixture(scope="module")
def seven(handmade):
    """A trace of seven tokens without a mask, and its picture of c in L1H2."""
    trace = handmade("a b c d e f g")
    return trace, drawn(trace, token="c", head="L1H2")


@pytest.fixture(scope="module")
def causal(handmade):
    """A trace of five tokens with a causal mask, and its picture of c in L0H1."""
    trace = handmade("a b c d e", mask=Causal(), kind="decoder")
    return trace, drawn(trace, token="c", head="L0H1")


@pytest.fixture(scope="module")
def long(handmade):
    """A trace of 300 tokens with a causal mask, and its picture of w200 in L0H1."""
    trace = handmade(" ".join(f"w{i}" for i in range(300)), n_layers=1, mask=Causal(), kind="decoder")
    return trace, drawn(trace, token="w200", head="L0H1")


# The pattern


def test_the_area_of_each_circle_is_its_weight(seven):
    trace, picture = seven
    circles = part(picture, "weights")
    assert_allclose(circles.get_widths(), circles.get_heights())
    columns, rows = (circles.get_offsets() - 0.5).astype(int).T
    weights = trace["L1H2"].weights.numpy()[rows, columns]
    assert_allclose((circles.get_widths() / circles.get_widths().max()) ** 2, weights / weights.max(), rtol=1e-5)
    large = np.argwhere(trace["L1H2"].weights.numpy() >= 0.0005)
    assert sorted(zip(rows, columns, strict=True)) == sorted(map(tuple, large))


def test_a_circle_never_leaves_its_cell(handmade):
    picture = drawn(handmade("a b c", mask=Causal(), kind="decoder"), token="b", head="L0H0")
    circles = part(picture, "weights")
    assert 0.9 < circles.get_widths().max() < 1  # the first token looks at itself alone, with weight 1
    axes = circles.axes
    assert [tuple(axes.get_xlim()), tuple(axes.get_ylim())] == [(0, 3), (3, 0)]


def test_masked_cells_are_grey_and_have_no_circle(causal):
    _, picture = causal
    masked = part(picture, "masked")
    corners = {tuple(path.vertices.min(axis=0).astype(int)) for path in masked.get_paths()}
    assert corners == {(key, query) for query in range(5) for key in range(5) if key > query}
    assert {tuple(colour) for colour in masked.get_facecolor()} == {to_rgba(MASKED)}
    places = (part(picture, "weights").get_offsets() - 0.5).astype(int)
    assert corners.isdisjoint(map(tuple, places))
    assert "Grey: hidden by the mask." in caption(picture)


def test_a_pattern_without_a_mask_has_no_grey(it):
    assert part(it, "masked").get_paths() == []
    assert "Grey" not in caption(it)


def test_every_row_and_column_bears_its_token(snake, it):
    tokens = [token.text for token in snake.tokens]
    assert beside(it) == tokens + tokens


def test_the_querys_row_is_outlined(it):
    row, side = part(it, "chosen-row"), part(it, "weights").axes
    assert row.get_y() == pytest.approx(7, abs=0.1)
    assert row.get_y() + row.get_height() == pytest.approx(8, abs=0.1)
    assert [text.get_text() for text in side.texts if text.get_fontweight() == "bold"] == ["it"]


def test_past_forty_tokens_weights_are_shades(handmade):
    trace = handmade(" ".join(f"w{i}" for i in range(41)), n_layers=1, mask=Causal(), kind="decoder")
    image = part(drawn(trace, token="w17", head="L0H0"), "weights").get_array()
    assert_allclose(image.data, trace["L0H0"].weights.numpy())
    assert (image.mask == np.triu(np.ones((41, 41), bool), 1)).all()


def test_past_sixty_tokens_only_query_and_strongest_keys_are_named_and_the_text_is_whole(handmade):
    trace = handmade(" ".join(f"w{i}" for i in range(97)), n_layers=1)
    picture = drawn(trace, token="w17", head="L0H0")
    strongest = sorted(key.position for key in trace["L0H0"].top("w17", 5))
    assert [name for name in beside(picture) if name.startswith("w")] == ["w17", *(f"w{key}" for key in strongest)]
    assert all(part(picture, f"key-{i}") for i in range(97))
    assert "…" not in texts(picture)


def test_a_long_text_is_pooled_and_says_so(long):
    trace, picture = long
    image = part(picture, "weights").get_array()
    pooled = trace.decoder[0].pooled(256, 256, "max")[0, 1].numpy()
    assert_allclose(image.data, pooled)
    of = np.arange(300) * 256 // 300
    seen = np.zeros((256, 256), bool)
    np.logical_or.at(seen, (of[:, None], of[None]), np.tri(300, dtype=bool))
    assert (image.mask == ~seen).all()
    assert "300 × 300 weights pooled to 256 × 256 cells, each showing its largest" in caption(picture)


@pytest.mark.parametrize("max_cells", [11, 29])
def test_maps_are_what_the_pattern_gives(handmade, max_cells, monkeypatch):
    pattern = handmade(" ".join(f"w{i}" for i in range(29)), mask=Causal(), kind="decoder").decoder[1]
    given = (pattern.dense() if max_cells == 29 else pattern.pooled(11, 11, "max"))[0, [2, 0]]
    whole = pattern_cells(pattern, [2, 0], max_cells)
    monkeypatch.setattr("regard.views.picture.pattern.BLOCK_WEIGHTS", 100)
    blocks = pattern_cells(pattern, [2, 0], max_cells)
    for cells in (whole, blocks):
        assert_allclose(cells.weights, given)
    assert (blocks.allowed == whole.allowed).all()


def test_what_is_seen_is_each_heads_own(normal):
    keep = normal(1, 3, 23, 29) > 1.5
    pattern = attend(normal(1, 3, 23, 5), normal(1, 3, 29, 5), normal(1, 3, 29, 5), mask=keep).pattern
    seen = np.zeros((2, 7, 7), bool)
    for head, query, key in np.argwhere(keep[0, [2, 0]].numpy()):
        seen[head, query * 7 // 23, key * 7 // 29] = True
    assert 0 < seen.sum() < seen.size
    assert (pattern_cells(pattern, [2, 0], max_cells=7).allowed.numpy() == seen).all()


def test_heads_share_a_mask_of_queries_and_keys_alone(normal):
    class Even(Mask):
        def keep(self, tile, device):  # [1 1 queries keys]
            return (tile.query_positions(device) + tile.key_positions(device)) % 2 == 0

    pattern = attend(normal(1, 3, 5, 5), normal(1, 3, 7, 5), normal(1, 3, 7, 5), mask=Even()).pattern
    given = pattern.dense()[0, [2, 0]] > 0
    assert torch.equal(pattern_cells(pattern, [2, 0], max_cells=7).allowed, given)


# The text


def test_the_tint_of_each_token_is_its_weight(causal):
    trace, picture = causal
    for key, weight in enumerate(trace["L0H1"]["c"].tolist()):
        colour = part(picture, f"key-{key}").get_facecolor()
        assert_allclose(colour, weight_colours()(weight) if key <= 2 else to_rgba(MASKED))


def test_the_arcs_are_as_thick_as_the_row(seven):
    trace, picture = seven
    arcs = part(picture, "arcs")
    row = trace["L1H2"]["c"].numpy()
    assert_allclose(np.array(arcs.get_linewidths()) / sum(arcs.get_linewidths()), row / row.sum(), rtol=1e-5)
    opacity = arcs.get_edgecolor()[:, 3]
    assert (np.argsort(opacity) == np.argsort(row)).all()
    assert opacity.max() <= 1


def test_the_arcs_lead_from_the_token_to_each_key(seven):
    _, picture = seven
    boxes = [part(picture, f"key-{key}") for key in range(7)]
    middles = [box.get_x() + box.get_width() / 2 for box in boxes]
    ends = np.array([path.vertices[[0, -1], 0] for path in part(picture, "arcs").get_paths()])
    assert_allclose(ends[:, 0], middles[2])
    assert_allclose(ends[:, 1], middles)


def test_the_querys_token_alone_is_outlined(seven):
    _, picture = seven
    assert [key for key in range(7) if part(picture, f"key-{key}").get_edgecolor()[3] > 0] == [2]


def test_the_strongest_weights_are_written(snake, it):
    written = texts(it)
    assert "0.674" in written
    assert all(f"{key.weight:.3f}" in written for key in snake["L3H1"].top("it", 5))
    assert "“it” looks most at “snake” (0.674)" in written


def test_of_a_very_long_text_the_parts_near_query_and_keys_are_shown_and_counted(long):
    trace, picture = long
    shown = [i for i in range(300) if any(a.get_gid() == f"key-{i}" for axes in picture.axes for a in axes.patches)]
    assert {200, *(key.position for key in trace["L0H1"].top("w200", 5))} <= set(shown)
    assert len(shown) < 100
    note = f"Of the 300 tokens read, {len(shown)} are shown: those near “w200” and near its strongest keys."
    assert note in caption(picture)
    assert texts(picture).count("…") >= 2


def test_across_two_texts_the_target_stands_over_the_source():
    trace = cross(11, 7)
    picture = drawn(trace, token="t3", head="L0H1")
    queries, keys = ([part(picture, f"{side}-{i}") for i in range(n)] for side, n in (("query", 7), ("key", 11)))
    assert max(box.get_y() for box in queries) < min(box.get_y() for box in keys)
    assert [box.get_edgecolor()[3] > 0 for box in queries] == [i == 3 for i in range(7)]
    for key, weight in enumerate(trace["L0H1"]["t3"].tolist()):
        assert_allclose(keys[key].get_facecolor(), weight_colours()(weight))
    assert beside(picture) == [f"t{i}" for i in range(7)] + [f"s{i}" for i in range(11)]


def test_across_two_long_texts_both_are_cut_and_say_so():
    trace = cross(211, 199)
    _, read, written = lay_out_sentence(focus_on(trace, token="t90", head="L0H1"), fonts_for("t")).notes
    shown = {near for key in trace["L0H1"].top("t90", 5) for near in range(key.position - 4, key.position + 5)}
    assert read.startswith(f"Of the 211 tokens read, {len(shown & set(range(211)))} are shown")
    assert written.startswith("Of the 199 tokens written, 19 are shown")


def test_a_short_target_of_a_long_source_has_the_names_of_all_its_tokens():
    picture = drawn(cross(211, 7), token="t3", head="L0H1")
    assert {f"t{row}" for row in range(7)} <= set(beside(picture))
    rows = [text.get_window_extent() for text in part(picture, "weights").axes.texts if text.get_text()[0] == "t"]
    assert all(not first.overlaps(second) for first, second in pairwise(rows))


def test_a_blind_token_of_a_long_target_shows_where_the_source_begins():
    nothing = torch.arange(199)[:, None] != 90
    picture = drawn(cross(211, 199, mask=nothing), token="t90", head="L0H1")
    assert "“t90” sees nothing" in texts(picture)
    assert part(picture, "key-0").get_facecolor() == to_rgba(MASKED)
    assert "Of the 211 tokens read, 5 are shown" in caption(picture)
    assert "Of the 199 tokens written, 19 are shown" in caption(picture)


# All heads


def test_every_heads_largest_weight_is_a_cell_and_the_chosen_one_is_outlined(snake, it):
    image = part(it, "heads").get_array()
    assert image.shape == (6, 12)
    for head, _, weight in strongest_other_words(snake.heads(), 7):
        assert image[head.layer, head.head] == pytest.approx(weight)
    assert part(it, "chosen-head").get_xy() == (1, 3)
    assert {"L0H2", "L3H1"} <= set(texts(it))


def test_layers_of_different_numbers_of_heads(uneven):
    cells = part(drawn(uneven, head="L1H0", token="b"), "heads").get_array()
    looks = {(head.layer, head.head): weight for head, _, weight in strongest_other_words(uneven.heads(), 1)}
    assert_allclose(cells, [[looks.get((layer, head), 0.0) for head in range(4)] for layer in (1, 4)])


def test_layers_that_were_not_traced_have_no_row(snake):
    some = Trace("m", snake.text, "", snake.source, (), {"encoder": {2: snake.attended["encoder"][2]}})
    picture = drawn(some, token="it")
    assert part(picture, "heads").get_array().shape == (1, 12)
    assert "2" in texts(picture)


# The page


WORDS = ["a", "interdisciplinarity " * 23, " ".join(f"w{i}" for i in range(83)), "x" * 400 + " b"]


@pytest.mark.parametrize("words", WORDS, ids=["one", "long", "many", "endless"])
def test_nothing_is_cut_off_at_the_edge(handmade, words):
    assert_inside(drawn(handmade(words, n_layers=3, n_heads=5)))


def test_tokens_of_a_text_do_not_overlap(handmade):
    picture = drawn(handmade(" ".join(["a", "interdisciplinarity", "b"] * 11), n_layers=1))
    boxes = [part(picture, f"key-{i}") for i in range(33)]
    for one, other in pairwise(boxes):
        assert one.get_x() + one.get_width() <= other.get_x() or other.get_y() >= one.get_y() + one.get_height()


def test_signs_are_drawn_as_they_stand(handmade, tmp_path):
    trace = handmade(r"$x_1$ <script> $ \frac{} & %")
    picture = drawn(trace, token="$x_1$", head="L0H0")
    assert not any(text.get_parse_math() for axes in picture.axes for text in axes.texts)
    assert beside(picture)[:6] == [r"$x_1$", "<script>", "$", r"\frac{}", "&", "%"]
    assert b"<script" not in save_figure(picture, tmp_path / "a.svg").read_bytes()


def test_a_model_with_a_long_name_keeps_its_head(handmade):
    trace = handmade("a b")
    long = Trace("m" * 200, trace.text, "", trace.source, (), trace.attended)
    title = [text.get_text() for text in drawn(long, token="a", head="L0H1").axes[0].texts]
    assert title[0].startswith("mmm")
    assert title[0].endswith("m…")
    assert title[1] == "L0H1"


def test_a_token_that_sees_nothing_says_so(normal):
    tokens = tuple(Token(word, word) for word in "abc")
    blind = torch.tensor([[True, True, True], [False, False, False], [True, True, True]])
    steps = {"encoder": {0: attend(normal(1, 2, 3, 5), normal(1, 2, 3, 5), normal(1, 2, 3, 5), mask=blind)}}
    picture = drawn(Trace("m", "a b c", "", tokens, (), steps), token="b", head="L0H0")
    assert "“b” sees nothing" in texts(picture)
    assert all(to_rgba(MASKED) == part(picture, f"key-{key}").get_facecolor() for key in range(3))


# The file


@pytest.mark.parametrize("ending", MAGIC)
def test_the_ending_names_the_kind_of_file_and_the_same_trace_gives_the_same_bytes(causal, tmp_path, ending):
    trace, picture = causal
    content = trace.figure(tmp_path / f"a{ending.upper()}", token="c", head="L0H1").read_bytes()
    assert content.startswith(MAGIC[ending])
    assert content == save_figure(picture, tmp_path / f"b{ending}").read_bytes()
    assert not any(word in content for word in (b"CreationDate", b"dc:date", b"Software"))
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"a{ending.upper()}", f"b{ending}"]


@pytest.mark.parametrize("name", ["snake.jpg", "snake"])
def test_another_ending(handmade, tmp_path, name):
    message = f"cannot tell what kind of picture {tmp_path / name} is; its name must end in .png, .svg or .pdf."
    assert refusal(InputError, write_figure, handmade("a b"), tmp_path / name) == message
    assert [path.name for path in tmp_path.iterdir()] == []


def test_no_folder(handmade, tmp_path):
    path = tmp_path / "none" / "a.png"
    message = f"cannot write {path}: there is no folder {path.parent}; make it first or name another file."
    assert refusal(InputError, write_figure, handmade("a b"), path) == message
    assert [path.name for path in tmp_path.iterdir()] == []


def test_no_such_token_leaves_no_file(handmade, tmp_path):
    assert (
        refusal(InputError, write_figure, handmade("the snake"), tmp_path / "a.png", token="snakes")
        == "no token 'snakes' in the text; nearest: snake."
    )
    assert [path.name for path in tmp_path.iterdir()] == []


def test_a_picture_can_be_read_back_at_its_size(causal, tmp_path):
    _, picture = causal
    pixels = imread(save_figure(picture, tmp_path / "a.png"))
    width, height = picture.get_size_inches() * 200
    assert pixels.shape[:2] == (pytest.approx(height, abs=1), pytest.approx(width, abs=1))
    assert_allclose(pixels[0, 0, :3], 1.0)
    assert math.isclose(pixels.min(), 0.0, abs_tol=0.2)


def test_a_word_that_looks_at_no_other_has_no_list(handmade):
    written = texts(drawn(handmade("a b c", mask=Causal(), kind="decoder"), token="a"))
    assert "Every head: “a” looks at no other word" in " ".join(written)
    assert not [text for text in written if text.startswith("L1H")]


@pytest.mark.parametrize(("text", "from_right"), [("הנחש מסוכן מאוד", True), ("the snake הנחש", False)])
def test_a_text_in_hebrew_runs_from_right_to_left(handmade, text, from_right):
    """The boxes stand in the order in which the text is read, and the arcs follow them."""
    picture = figure(trace := handmade(text), focus_on(trace))
    lefts = [
        next(t.get_position()[0] for axes in picture.axes for t in axes.texts if t.get_text() == word)
        for word in text.split()
    ]
    assert lefts == sorted(lefts, reverse=from_right)
