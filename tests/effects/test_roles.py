"""Roles of heads against loops over queries and keys, and against heads made for one role."""

import math

import pytest
import torch
from torch.testing import assert_close

from regard import Causal, Keep, attend
from regard.effects import distance
from regard.effects.roles import KEY_ROLES, ROLES, role_sums, token_numbers

TEXTS = ["[CLS]", "a", "b", "a", "b", "c", "a", "[SEP]"]
SPECIAL = [True, *[False] * 6, True]


def has_role(role, query, key):
    """Return whether a key has a role for a query, e.g. "previous", by the definitions in roles.py."""
    return {
        "previous": key == query - 1,
        "next": key == query + 1,
        "same": key == query,
        "first": key == 0,
        "separator": SPECIAL[key],
        "duplicate": key != query and TEXTS[key] == TEXTS[query],
        "induction": 0 < key != query and key - 1 < query and TEXTS[key - 1] == TEXTS[query],
    }[role]


@pytest.mark.parametrize("mask", [None, Causal()])
@pytest.mark.parametrize("block", [1, 60, 2**22])
def test_roles_are_sums_over_queries_and_keys(normal, monkeypatch, block, mask):
    monkeypatch.setattr(distance, "BLOCK_WEIGHTS", block)
    pattern = attend(*[normal(1, 3, 8, 5)] * 3, mask=mask).pattern
    weights, n = pattern.dense()[0].double(), len(TEXTS)
    seen = role_sums(pattern, TEXTS, SPECIAL)
    for row, role in enumerate(KEY_ROLES):
        pairs = [(q, k) for q in range(n) for k in range(n) if has_role(role, q, k)]
        expected = torch.stack([weights[:, q, k] for q, k in pairs]).sum(dim=0)
        assert_close(seen.sums[row], expected, msg=lambda text, role=role: f"{role}: {text}")
        n_queries = len({q for q, k in pairs if mask is None or k <= q})  # that may attend to a key of the role
        assert seen.n_queries[row].tolist() == [n_queries] * 3
    apart = (torch.arange(n)[:, None] - torch.arange(n)).abs()
    assert_close(seen.sums[ROLES.index("distance")], (weights * apart).sum(dim=(1, 2)))
    entropies = [[-sum(w * math.log(w) for w in row if w > 0) for row in head] for head in weights.tolist()]
    assert_close(seen.sums[ROLES.index("entropy")], torch.tensor(entropies).double().sum(dim=1), rtol=1e-6, atol=1e-6)
    assert seen.n_queries[-2:].tolist() == [[n] * 3] * 2


@pytest.mark.parametrize("role", KEY_ROLES)
def test_a_head_made_for_a_role_has_it_alone(role):
    keep = torch.tensor([[has_role(role, q, k) for k in range(8)] for q in range(8)])
    x = torch.zeros(1, 1, 8, 2)
    means = role_sums(attend(x, x, x, mask=Keep(keep)).pattern, TEXTS, SPECIAL).means()
    assert float(means[KEY_ROLES.index(role)]) == pytest.approx(1.0)


def test_sums_of_texts_are_added_and_a_role_without_queries_has_a_mean_of_nan(normal):
    pattern = attend(*[normal(1, 2, 3, 5)] * 3).pattern
    one = role_sums(pattern, ["x", "y", "z"], [False] * 3)
    means = (one + one).means()
    assert_close(means, one.means(), equal_nan=True)
    assert means[KEY_ROLES.index("induction")].isnan().all()
    assert means[KEY_ROLES.index("separator")].isnan().all()


def test_a_query_counts_in_the_heads_in_which_it_sees_a_key_of_the_role():
    """A causal head that attends to earlier copies alone has the mean 1, though first copies have no earlier one."""
    texts = ["a", "b", "c", "a", "b", "c"]
    query, key = torch.arange(6)[:, None], torch.arange(6)
    keep = torch.stack([key == torch.where(query < 3, query, query - 3), key == query])
    x = torch.zeros(1, 2, 6, 2)
    means = role_sums(attend(x, x, x, mask=Keep(keep) & Causal()).pattern, texts, [False] * 6).means()
    duplicate, following = means[KEY_ROLES.index("duplicate")], means[KEY_ROLES.index("next")]
    assert float(duplicate[0]) == pytest.approx(1.0)
    assert bool(duplicate[1].isnan())
    assert following.isnan().all()


def test_tokens_with_the_same_text_have_the_same_number():
    assert token_numbers(["a", "b", "a"]).tolist() == [0, 1, 0]


def test_induction_does_not_count_the_query_itself(normal):
    """The key after an earlier token with the query's text may be the query itself, which does not count."""
    pattern = attend(*[normal(1, 2, 3, 5)] * 3).pattern
    seen, row = role_sums(pattern, ["a", "a", "a"], [False] * 3), KEY_ROLES.index("induction")
    assert_close(seen.sums[row], pattern.dense()[0, :, 2, 1].double())
    assert seen.n_queries[row].tolist() == [1, 1]
