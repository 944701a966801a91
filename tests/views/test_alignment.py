"""Alignments as a table and as a picture."""

import io

import pytest
import torch
from refusals import refusal
from rich.console import Console

from regard import InputError
from regard.views.alignment import alignment_table, write_alignment

SOURCE, TARGET = ["ein", "Hund", "läuft"], ["a", "dog", "runs", "."]
WEIGHTS = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.75, 0.25], [0.5, 0.0, 0.5], [0.0, 0.0, 1.0]])


def written(table, **options):
    console = Console(file=io.StringIO(), width=60, **options)
    console.print(table)
    return console.file.getvalue()


def test_a_row_for_each_target_word_and_a_column_for_each_source_word():
    head, *rows = written(alignment_table(SOURCE, TARGET, WEIGHTS)).splitlines()
    assert head.split() == SOURCE
    assert [row.split()[0] for row in rows] == TARGET
    full, most, half, quarter = rows[0].split()[1], rows[1].split()[1], rows[2].split()[1], rows[1].split()[2]
    assert len({full, most, half, quarter}) == 4  # stronger weights are fuller blocks
    assert rows[2].split()[1] == rows[2].split()[2]  # equal weights are equal blocks
    for row, weights in zip(rows, WEIGHTS.tolist(), strict=True):
        for word, weight in zip(SOURCE, weights, strict=True):
            at = head.index(word) + len(word) // 2  # in the middle under the word
            assert (row[at - 1 : at + 2].strip() == "") == (weight == 0)


def test_the_words_must_be_as_many_as_the_rows():
    with pytest.raises(ValueError, match="zip"):
        alignment_table(SOURCE, TARGET[:2], WEIGHTS)


def test_every_word_and_a_circle_for_each_weight_is_in_the_picture(tmp_path):
    rule = "cross-attention, layer 2, head 5"
    drawing = write_alignment(tmp_path / "a.svg", SOURCE, TARGET, WEIGHTS, "the title", rule).read_text()
    caption = "row: translation · column: source · area of a circle: weight"
    for text in (*SOURCE, *TARGET, "the title", caption, rule):
        assert f"<!-- {text} -->" in drawing


def test_long_alignments_stay_as_wide_as_a_page(tmp_path):
    n = 120
    path = write_alignment(tmp_path / "a.svg", ["word"] * n, ["Wort"] * n, torch.eye(n))
    assert float(path.read_text().split('width="')[1].split("pt")[0]) <= 72 * 14


def test_a_picture_of_an_unknown_kind(tmp_path):
    assert refusal(InputError, write_alignment, tmp_path / "a.bmp", SOURCE, TARGET, WEIGHTS) == (
        f"cannot tell what kind of picture {tmp_path / 'a.bmp'} is; its name must end in .png, .svg or .pdf."
    )


@pytest.mark.parametrize("width", [40, 80])
def test_no_column_is_lost_on_a_narrow_terminal(width):
    source, target = [f"source{n}" for n in range(19)], [f"target{n}" for n in range(3)]
    console = Console(file=io.StringIO(), width=width)
    console.print(alignment_table(source, target, torch.ones(3, 19)))
    text = console.file.getvalue()
    blocks = [block.splitlines() for block in text.rstrip().split("\n\n")]
    assert [word for head, *_ in blocks for word in head.split()] == source
    assert all([row.split()[0] for row in rows] == target for _, *rows in blocks)
    assert text.count("██") == 3 * 19
