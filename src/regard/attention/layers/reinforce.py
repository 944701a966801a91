"""REINFORCE: an estimate of the gradient of the expected reward when each query draws one key at random.

    ∇ E[reward] = E[(reward - baseline) · ∇ log weight of the drawn key]

Backpropagation does not pass through a random draw, so the parameters of the scores get their gradient from this
estimate.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.gradients import checkpointed
from regard.attention.grid.grid import Tile, entries_at
from regard.attention.normalise.hard import Hard, Sampled
from regard.attention.normalise.softmax import Softmax
from regard.attention.pattern import Pattern
from regard.attention.weights import block_tiles, weights_of


def reinforce(
    log_weights: Float[Tensor, "batch heads queries"],
    reward: Float[Tensor, "#batch #heads #queries"],
    baseline: float | Float[Tensor, "#batch #heads #queries"] = 0.0,
) -> Float[Tensor, ""]:
    """Return a loss whose mean gradient is -∇ E[reward]: minimising the loss maximises the expected reward.

        loss = -1/batch Σ (reward - baseline) · log_weights

    Only the gradient of the loss has a meaning, not its value.

    Args:
        log_weights: the log-probabilities of the keys that were drawn, from `log_weights_of_choice`.
        reward: the reward of each draw, e.g. the log-likelihood of the target. The loss gives the reward no gradient:
            the parameters that compute the reward need another loss.
        baseline: a number near the mean reward, which lowers the variance of the gradient without changing its mean. It
            must not be computed from these draws. E.g. 0.9 · previous baseline + 0.1 · previous mean reward.

    Source: Williams 1992, theorem 1; Xu et al. 2015, equations 11 and 12.
    """
    advantage = (reward - baseline).detach()
    return -(advantage * log_weights).sum() / len(log_weights)


def log_weights_of_choice(pattern: Pattern) -> Float[Tensor, "batch heads queries"]:
    """Return the log-probability of the key that each query drew; 0 for a query that may attend to no key.

    Gradients flow back to query and key; the backward pass recomputes the weights instead of storing them.

    Raises:
        TypeError: the pattern was not computed with `normalise=Hard(Sampled(…))`.

    >>> import torch
    >>> from regard import Hard, Sampled, attend, log_weights_of_choice
    >>> zeros = torch.zeros(1, 1, 2, 1)
    >>> log_weights_of_choice(attend(zeros, zeros, zeros, normalise=Hard(Sampled(seed=7))).pattern).exp()
    tensor([[[0.5000, 0.5000]]])
    """
    if not (isinstance(pattern.normalise, Hard) and isinstance(pattern.normalise.choose, Sampled)):
        raise TypeError(
            f"the pattern was computed with {pattern.normalise!r}, which draws no keys at random; "
            "give attend normalise=Hard(Sampled(seed=…))."
        )
    pattern.call.check_tensors_unchanged()  # pattern.top does not check this if the pattern has stored the top keys
    keys = pattern.top(1).keys
    softmax_call = pattern.call.changed(normalise=Softmax(temperature=pattern.normalise.choose.temperature))

    def log_weights_of_block(block: Tile) -> Float[Tensor, "batch heads block 1"]:
        weights, chosen = weights_of(softmax_call, block), entries_at(keys, 2, block.queries)
        # A query that may attend to no key draws the key index -1: its log-probability and gradient are set to 0.
        return weights.gather(3, chosen.clamp_min(0)).masked_fill(chosen < 0, 1.0).log()

    tiles = block_tiles(pattern.call, pattern.grid.whole())  # blocks of queries, each with all its keys
    blocks = [checkpointed(log_weights_of_block, tile, reads=pattern.call.tensors) for tile in tiles]
    return torch.cat(blocks, dim=2)[..., 0]
