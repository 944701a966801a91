"""Tests for every translating model: logits do not depend on later tokens, on padding, or on decoding in steps.

class TestLaws(Laws): ...       in a file whose fixture `model` is a model in float64, over at least 31 tokens a side
"""

import pytest
import torch
from refusals import refusal
from torch.testing import assert_close

from regard.translation.model_protocol import TranslatingModel

LENGTHS = [5, 11, 7]


def texts(lengths: list[int], n_tokens: int, seed: int = 0) -> torch.Tensor:
    """Random ids, padded on the right with 0."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(4, n_tokens, (len(lengths), max(lengths)), generator=generator)
    return ids * (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None])


SOURCE, TARGET = texts(LENGTHS, 31), texts([13, 13, 13], 31, seed=1)


def run(model, source=SOURCE, lengths=LENGTHS, target=TARGET):
    return model(source, torch.tensor(lengths), target)


def start(model):
    return model.start(SOURCE, torch.tensor(LENGTHS))


class Laws:
    """The tests; a subclass in a test file with a fixture `model` runs them on its model."""

    def test_the_model_implements_the_protocol(self, model):
        assert isinstance(model, TranslatingModel)

    def test_later_tokens_never_change_logits(self, model):
        changed = TARGET.clone()
        changed[:, 6:] = (TARGET[:, 6:] + 1) % 31
        before, after = run(model), run(model, target=changed)
        assert_close(after.logits[:, :6], before.logits[:, :6])
        for seen, expected in zip(after.cross, before.cross, strict=True):
            assert_close(seen[:, :, :6], expected[:, :, :6])
        assert ((after.logits[:, 6:] - before.logits[:, 6:]).abs().amax(dim=-1) > 1e-3).all()

    def test_padding_of_the_source_never_changes_logits(self, model):
        changed = torch.where(SOURCE == 0, 17, SOURCE)
        wider = torch.cat([SOURCE, torch.full((3, 2), 19)], dim=1)
        expected = run(model).logits
        assert_close(run(model, source=changed).logits, expected)
        assert_close(run(model, source=wider).logits, expected)
        for row, length in enumerate(LENGTHS):
            alone = run(model, SOURCE[row : row + 1, :length], [length], TARGET[row : row + 1])
            assert_close(alone.logits[0], expected[row])

    @pytest.mark.parametrize("split", [[13], [1, 1, 4, 1, 6]])
    def test_any_split_into_steps_equals_all_at_once(self, model, split):
        state, logits, cross = start(model), [], []
        for tokens in TARGET.split(split, dim=1):
            step = model.step(tokens, state)
            state = step.state
            logits.append(step.logits)
            cross.append([pattern.dense() for pattern in step.cross])
        expected = run(model)
        assert state.n_tokens == 13
        assert_close(torch.cat(logits, dim=1), expected.logits)
        for parts, pattern in zip(zip(*cross, strict=True), expected.cross, strict=True):
            assert_close(torch.cat(parts, dim=2), pattern.dense())

    def test_select_then_step_equals_step_then_index(self, model):
        state = model.step(TARGET[:, :4], start(model)).state
        rows = torch.tensor([2, 0, 0, 1, 2])
        expected = model.step(TARGET[:, 4:6], state)
        step = model.step(TARGET[rows, 4:6], state.select(rows))
        assert_close(step.logits, expected.logits[rows])
        after, expected_after = model.step(TARGET[rows, 6:7], step.state), model.step(TARGET[:, 6:7], expected.state)
        assert_close(after.logits, expected_after.logits[rows])

    def test_rows_are_selected_before_the_first_token_too(self, model):
        rows = torch.tensor([1, 1])
        state = start(model).select(rows)
        assert state.n_tokens == 0
        assert_close(model.step(TARGET[rows, :2], state).logits, run(model).logits[rows, :2])

    def test_a_step_leaves_its_state_as_it_is(self, model):
        state = model.step(TARGET[:, :3], start(model)).state
        first, _ = model.step(TARGET[:, 3:4], state), model.step(TARGET[:, 5:6], state)
        assert state.n_tokens == 3
        assert_close(model.step(TARGET[:, 3:4], state).logits, first.logits)

    def test_a_state_dict_restores_the_logits(self, model):
        copy = type(model)(model.config).double().eval()
        copy.load_state_dict(model.state_dict())
        assert_close(run(copy).logits, run(model).logits)

    @pytest.mark.parametrize(("lengths", "item"), [([12, 11, 7], 0), ([5, 11, 0], 2), ([5, -1, 7], 1)])
    def test_lengths_that_are_not_the_sources_are_refused(self, model, lengths, item):
        source = SOURCE, torch.tensor(lengths)
        for method, *target in ((model, TARGET), (model.vectors, TARGET), (model.start,)):
            assert refusal(ValueError, method, *source, *target) == (
                f"lengths[{item}]={lengths[item]} in a source of 11 tokens; a length counts the tokens before the "
                "padding, from 1 to 11."
            )

    @pytest.mark.parametrize("lengths", [[11], [11, 5, 7, 9], [[11, 5, 7]]])
    def test_other_numbers_of_lengths_than_of_sources_are_refused(self, model, lengths, without_type_checks):
        source = SOURCE, torch.tensor(lengths)
        for method, *target in ((model, TARGET), (model.vectors, TARGET), (model.start,)):
            assert refusal(ValueError, method, *source, *target) == (
                f"lengths has shape {list(source[1].shape)}, and source has a batch of 3; give one length for each row "
                "of source, [3]."
            )

    @pytest.mark.parametrize("n_targets", [1, 2, 4])
    def test_a_batch_of_targets_that_does_not_fit_the_sources_is_refused(self, model, n_targets, without_type_checks):
        targets = torch.cat([TARGET, TARGET])[:n_targets]
        message = f"the targets have a batch of {n_targets} and the sources a batch of 3; give one target"
        assert refusal(ValueError, run, model, target=targets).startswith(message)
        assert refusal(ValueError, model.step, targets[:, :1], start(model)).startswith(message)

    def test_ids_that_are_no_ids_are_refused(self, model, without_type_checks):
        taken = "it takes a tensor of whole numbers [batch tokens]"
        for source, message in (
            (SOURCE.tolist(), f"source is a list; {taken}, and torch.as_tensor makes one of an array or a list."),
            (SOURCE.double(), f"source has dtype torch.float64; {taken}, such as int64."),
        ):
            assert refusal(TypeError, run, model, source=source) == message
            assert refusal(TypeError, model.start, source, torch.tensor(LENGTHS)) == message
        message = "source has shape [11]; token ids have two axes, [batch tokens]."
        assert refusal(ValueError, run, model, source=SOURCE[0]) == message
        message = "tokens has shape [13]; token ids have two axes, [batch tokens]."
        assert refusal(ValueError, run, model, target=TARGET[0]) == message
        message = "lengths is a list; it takes a tensor of whole numbers [batch], and torch.as_tensor makes one of an "
        assert refusal(TypeError, model, SOURCE, LENGTHS, TARGET) == f"{message}array or a list."

    @pytest.mark.parametrize("wrong", [-1, 10_000])
    def test_ids_outside_the_vocabulary_are_refused(self, model, wrong):
        source, target = SOURCE.clone(), TARGET.clone()
        source[1, 2], target[2, 0] = wrong, wrong
        n_source, n_target = model.config.n_source_tokens, model.config.n_target_tokens
        for call, name, n_tokens in (
            (lambda: run(model, source=source), "source", n_source),
            (lambda: model.start(source, torch.tensor(LENGTHS)), "source", n_source),
            (lambda: run(model, target=target), "tokens", n_target),
        ):
            assert refusal(ValueError, call) == (
                f"{name} has the token id {wrong}, and the vocabulary has {n_tokens} tokens; give ids from 0 to "
                f"{n_tokens - 1}."
            )

    def test_a_config_of_another_type_is_refused(self, model, without_type_checks):
        kind = type(model.config).__name__
        assert refusal(TypeError, type(model), {"d_model": 8}) == (
            f"config is of type dict; it takes a {kind}, which holds the sizes: "
            f"{kind}(n_source_tokens=…, n_target_tokens=…)."
        )
