"""The table and the picture of the roles of heads say of a role that no head has it, and list no head with 0."""

import io

import pytest
import torch
from pictures import texts
from rich.console import Console
from transformers import LlamaConfig, LlamaModel

import regard
from regard.views.picture.roles import roles_figure
from regard.views.terminal.roles import show


@pytest.fixture(scope="module")
def causal_roles():
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=30, hidden_size=24, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4
    )
    return regard.trace(LlamaModel(config).eval(), [3, 5, 3, 7, 5]).roles()


def test_the_table_of_a_causal_model_has_no_row_for_the_next_token(causal_roles):
    console = Console(file=io.StringIO(), width=100)
    show(causal_roles, "a model", console)
    printed = console.file.getvalue()
    rows = [line for line in printed.splitlines() if " L0H" in line or " L1H" in line]
    names = [line.split(" L")[0].strip() for line in rows]
    assert "the next token" not in names
    assert {"the previous token", "the first token", "the same text elsewhere", "after an earlier copy"} <= set(names)
    assert "0.00" not in printed
    assert causal_roles.top("next") == []


def test_the_picture_says_which_keys_there_are_none_of_and_which_no_head_looks_at(causal_roles):
    written = texts(roles_figure(causal_roles, "a model"))
    assert "next token: no head" in written
    assert f"previous token: {causal_roles.top('previous', 1)[0][0]} {causal_roles.top('previous', 1)[0][1]:.2f}" in (
        written
    )
    alone = regard.trace("MiniLM", "a dog runs").roles()
    assert "after an earlier copy: in no text" in texts(roles_figure(alone, "a model"))
