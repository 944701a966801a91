"""Tests of selecting rows of the decoding state, as a search does."""

import pytest
import torch
from loud import loud, small
from model_laws import texts
from torch.testing import assert_close

from regard.transformer.decoding.state import DecodingState, group_by_source
from regard.transformer.model import Transformer

SOURCE, LENGTHS = texts([7, 5, 3], 31), torch.tensor([7, 5, 3])
TARGET = texts([5, 5, 5], 37, seed=1)


@pytest.fixture(params=["pre", "post"])
def model(request: pytest.FixtureRequest) -> Transformer:
    return loud(Transformer(small(norm=request.param, n_key_heads=3)))


def after_two(model: Transformer) -> DecodingState:
    return model.step(TARGET[:, :2], model.start(SOURCE, LENGTHS)).state


def test_rows_of_one_source_share_its_memory_and_have_its_logits(model):
    state, beams = after_two(model), torch.tensor([0, 0, 1, 1, 2, 2])
    wide = state.select(beams)
    assert wide.rows_per_source == 2
    assert wide.memory is state.memory  # not a number of it was copied
    assert repr(wide) == "DecodingState(n_tokens=2, rows=6, source=7, layers=3)"
    step = model.step(TARGET[beams, 2:3], wide)
    assert_close(step.logits, model.step(TARGET[:, 2:3], state).logits[beams])


@torch.inference_mode()
def test_rows_selected_at_every_step_have_the_logits_of_their_texts(model):
    texts_so_far, sources, state = TARGET[:, :2], torch.arange(3), after_two(model)
    random = torch.Generator().manual_seed(3)
    for n_rows in (6, 6, 5, 7, 7, 3, 3, 3, 2, 4, 4, 4):
        rows = torch.randint(len(texts_so_far), (n_rows,), generator=random)
        sources = sources[rows]
        new = torch.randint(4, 37, (n_rows, 1), generator=random)
        texts_so_far = torch.cat([texts_so_far[rows], new], dim=1)
        step = model.step(new, state.select(rows))
        state = step.state
        expected = model(SOURCE[sources], LENGTHS[sources], texts_so_far)
        assert_close(step.logits[:, 0], expected.logits[:, -1])
        assert_close(step.cross[1].dense().transpose(1, 2).flatten(0, 1), expected.cross[1].dense()[:, :, -1])


@pytest.mark.parametrize(
    ("sources", "each", "rows_per_source"),
    [
        ([0, 0, 0, 1, 1, 1], [0, 1], 3),
        ([1, 1, 0, 0], [1, 0], 2),
        ([2, 0, 1], [2, 0, 1], 1),
        ([0, 0, 1], [0, 0, 1], 1),
        ([0, 1, 1, 0], [0, 1, 1, 0], 1),
        ([], [], 0),
    ],
)
def test_sources_are_grouped_where_all_have_equally_many_rows(sources, each, rows_per_source):
    found = group_by_source(torch.tensor(sources, dtype=torch.long))
    assert (found[0].tolist(), found[1]) == (each, rows_per_source)
