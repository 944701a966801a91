"""General scores: torch's own bilinear layer, the equation as a loop, a case by hand."""

import torch
from torch.testing import assert_close

from regard import General, attend


def test_scores_are_torchs_bilinear_layer(normal):
    query, key, value = normal(2, 3, 5, 7), normal(2, 3, 11, 13), normal(2, 3, 11, 2)
    score, bilinear = General(d_query=7, d_key=13), torch.nn.Bilinear(7, 13, 1, bias=False)
    with torch.no_grad():
        bilinear.weight[0] = score.weight
    seen = attend(query, key, value, score=score)
    pairs = torch.broadcast_tensors(query[:, :, :, None, :1], key[:, :, None, :, :1])[0].shape[:-1]
    scores = bilinear(query[:, :, :, None].expand(*pairs, 7), key[:, :, None].expand(*pairs, 13))[..., 0]
    assert_close(seen.pattern.scores(), scores)
    assert_close(seen.context, scores.softmax(dim=-1) @ value)


def test_by_hand():
    score = General(d_query=2, d_key=3)
    with torch.no_grad():
        score.weight.copy_(torch.tensor([[1.0, 0.0, -1.0], [2.0, 1.0, 0.0]]))
    query, key = torch.tensor([[[[3.0, 1.0]]]]), torch.tensor([[[[1.0, 2.0, 4.0], [0.0, 5.0, 1.0]]]])
    # (3, 1) W = (3 + 2, 1, -3) = (5, 1, -3); with (1, 2, 4): 5 + 2 - 12 = -5; with (0, 5, 1): 5 - 3 = 2
    assert attend(query, key, key, score=score).pattern.scores(0, 0, 0).tolist() == [-5.0, 2.0]


def test_its_matrix_is_learned_and_saved():
    score = General(d_query=5, d_key=11)
    assert {name: list(tensor.shape) for name, tensor in score.state_dict().items()} == {"weight": [5, 11]}
    bound = (6 / (5 + 11)) ** 0.5  # Glorot & Bengio 2010, equation 16
    assert 0.8 * bound < float(score.weight.detach().abs().max()) <= bound
