"""The table and the picture of the roles of heads say of a role that no head has it, and list no head with 0."""

import io

import pytest
import torch
from pictures import texts
from rich.console import Console
from transformers import LlamaConfig, LlamaModel

import regard
from regard.effects.roles import ROLES
from regard.views.picture.roles import TITLES, roles_figure
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


def test_the_picture_has_a_grid_for_each_role_that_a_head_has(causal_roles):
    alone = regard.trace("MiniLM", "a dog runs").roles()
    for roles, absent in ((causal_roles, {"next", "separator"}), (alone, {"duplicate", "induction"})):
        figure = roles_figure(roles, "a model")
        grids = {image.get_gid(): image for axes in figure.axes for image in axes.images}
        assert set(grids) == {*ROLES, "scale"} - absent
        for role in ("previous", "distance", "entropy"):
            head, largest = roles.top(role, 1)[0]
            assert f"{TITLES[role]}: {head} {largest:.2f}" in texts(figure)
            assert grids[role].norm.vmax == (1 if role == "previous" else pytest.approx(largest))
