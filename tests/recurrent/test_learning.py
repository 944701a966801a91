"""Models learn to reverse a text with attention in fewer steps than without it."""

import pytest
import torch
import torch.nn.functional as F

from regard import Recurrent, RecurrentConfig

BOS, N_TOKENS, LENGTH, ROWS = 2, 15, 8, 32

KINDS = {"luong": {}, "bahdanau": {"form": "bahdanau", "cell": "gru"}, "hard": {"attention": "hard"}}


def learned(model: Recurrent, n_steps: int = 125) -> tuple[float, float]:
    """Train a model; return the shares of correct tokens and of largest weights on the correct source token."""
    generator, lengths = torch.Generator().manual_seed(0), torch.full((ROWS,), LENGTH)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(n_steps):
        optimiser.step()  # the first step has no gradients and changes nothing
        source = torch.randint(4, N_TOKENS, (ROWS, LENGTH), generator=generator)
        expected = source.flip(1)
        target = torch.cat([torch.full((ROWS, 1), BOS), expected[:, :-1]], dim=1)
        predicted = model(source, lengths, target)
        optimiser.zero_grad()
        F.cross_entropy(predicted.logits.flatten(0, 1), expected.flatten()).backward()
    right = predicted.logits.argmax(dim=-1) == expected
    looked = predicted.cross[0].dense()[:, 0].argmax(dim=-1)
    return float(right.float().mean()), float((looked == torch.arange(LENGTH).flip(0)).float().mean())


def built(**given: object) -> Recurrent:
    torch.manual_seed(0)
    sizes = {"n_source_tokens": N_TOKENS, "n_target_tokens": N_TOKENS, "d_model": 32, "dropout": 0.0}
    return Recurrent(RecurrentConfig(**{**sizes, **given}))


@pytest.mark.parametrize("kind", KINDS)
def test_models_learn_to_reverse_a_text_by_attention(kind):
    right, aligned = learned(built(**KINDS[kind]))
    assert right > 0.85
    assert aligned > 0.85


def test_without_attention_a_model_has_not_learned_in_as_many_steps(monkeypatch):
    """The same model with queries of 0, so that every state attends equally."""
    model = built()
    arguments = model.decoder.reader.arguments
    monkeypatch.setattr(model.decoder.reader, "arguments", lambda queries, *rest: arguments(queries * 0, *rest))
    right, aligned = learned(model)
    assert right < 0.7
    assert aligned < 0.3
