"""The table of the roles of a model's heads, over one text and over many."""

import json

import pytest
import torch
from refusals import refusal
from torch.testing import assert_close

import regard
from regard import InputError
from regard.effects.roles import ROLES
from regard.tracing.model_loading import load
from regard.tracing.scan import Scan

TEXT = "The snake is very dangerous because it has a venom. The snake is old."


def test_minilm_has_a_head_for_the_previous_token():
    roles = regard.trace("MiniLM", TEXT).roles()
    head, share = roles.top("previous", 1)[0]
    assert head == "L0H2"
    assert share > 0.99
    assert roles.role(head) == "previous"
    weights = regard.trace("MiniLM", TEXT)[head].weights
    assert share == pytest.approx(float(weights.diagonal(-1).double().mean()), abs=1e-6)


def test_the_table_has_a_row_for_each_head(snake):
    roles = snake.roles()
    assert list(roles.columns) == ["head", *ROLES]
    assert {len(column) for column in roles.columns.values()} == {72}
    assert roles.columns["head"][13] == "L1H1"
    entropy = float(snake.encoder[1].entropy()[0, 1].mean())
    assert roles.columns["entropy"][13] == pytest.approx(entropy, abs=1e-5)
    assert repr(roles).startswith("Roles(heads=72, previous=L0H2, next=L1H8, ")


def test_a_role_that_no_text_shows_is_no_heads_role():
    roles = regard.trace("MiniLM", "a dog runs").roles()
    assert roles["induction"].isnan().all()
    assert not {roles.role(head) for head in roles.heads} & {"induction", "duplicate"}


def test_unknown_roles_heads_and_kinds_are_refused(snake):
    roles = snake.roles()
    assert refusal(InputError, roles.top, "previus") == "no role 'previus'; nearest: previous."
    assert refusal(InputError, roles.role, "L9H1") == "no head 'L9H1'; nearest: L5H1, L4H1, L3H1."
    assert refusal(InputError, snake.roles, "cross") == (
        "roles compare a query with the tokens of its own text; give 'encoder' or 'decoder'."
    )


def scan_of(lines):
    scan = Scan("MiniLM")
    assert len(list(scan.read(load(), lines))) == len(lines)
    return scan


def test_a_scan_adds_texts_of_different_lengths_and_goes_on_from_its_file(tmp_path):
    lines = [TEXT, "", "A dog runs.", "It is it."]
    whole = scan_of(lines)
    traces = [regard.trace("MiniLM", line).role_sums()[1] for line in lines if line]
    expected = (traces[0] + traces[1] + traces[2]).means()
    assert_close(whole.roles().means, expected, equal_nan=True)
    assert (whole.n_lines, whole.n_texts) == (4, 3)

    path = tmp_path / "scan"
    scan_of(lines[:2]).save(path)
    assert Scan.load(path, "another") is None
    resumed, rest = Scan.load(path, "MiniLM"), iter(lines)
    resumed.skip(rest)
    assert len(list(resumed.read(load(), rest))) == 2
    assert_close(resumed.roles().means, whole.roles().means, equal_nan=True)
    assert (resumed.n_lines, resumed.n_texts, resumed.n_tokens) == (4, 3, whole.n_tokens)
    assert resumed.source == whole.source
    assert resumed.n_known == resumed.n_words == whole.n_words == whole.n_tokens - 6  # without [CLS] and [SEP]


@pytest.mark.parametrize("lines", [["A dog runs.", "It"], ["A dog runs."], ["It", "A dog runs."], []])
def test_a_scan_does_not_go_on_in_another_text(tmp_path, lines):
    scan = scan_of(["A dog runs.", ""])
    assert refusal(InputError, scan.skip, iter(lines)) == (
        "the first 2 lines are not those that the stopped scan has read; give the same file, or another name with "
        "--out."
    )
    scan.skip(iter(["A dog runs.", "", "It"]))


SAVED = {"format": "regard scan", "model": "MiniLM", "source": "s"}


@pytest.mark.parametrize(
    "content",
    [
        "", "[]", "{}", json.dumps(SAVED),
        *(
            json.dumps(SAVED | {"heads": [], "sums": None, "counts": counts})
            for counts in ([1, 1, 5, 0, 3], [-1, 1, 5, 0, 3, 3], [1.0, 1, 5, 0, 3, 3], [1e999, 1, 5, 0, 3, 3], 7)
        ),
    ],
)  # fmt: skip
def test_a_damaged_file_of_a_scan_or_one_with_impossible_counts_begins_anew(tmp_path, content):
    path = tmp_path / "scan"
    path.write_text(json.dumps(SAVED | {"heads": [], "sums": None, "counts": [1, 1, 5, 0, 3, 3]}))
    assert Scan.load(path, "MiniLM").n_lines == 1
    path.write_text(content)
    assert Scan.load(path, "MiniLM") is None


def test_a_text_that_is_too_long_is_cut():
    scan = scan_of(["dog " * 600])
    assert (scan.n_truncated, scan.n_tokens) == (1, 512)
    assert torch.isfinite(scan.roles()["entropy"]).all()


def test_no_text_at_all_is_refused():
    message = "there is no text in the file; give a file with a text on each line."
    assert refusal(InputError, Scan("MiniLM").roles) == message
