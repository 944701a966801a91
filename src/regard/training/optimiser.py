"""AdamW for a model's parameters: matrices decay, other parameters do not.

Source: Kingma & Ba 2015; Loshchilov & Hutter 2019; the β and ε of Vaswani et al. 2017, section 5.3.
"""

from torch import nn
from torch.optim import AdamW, Optimizer

BETAS = (0.9, 0.98)
EPSILON = 1e-9


def make_optimiser(model: nn.Module, learning_rate: float, weight_decay: float) -> Optimizer:
    """Return the optimiser of a model that is on its device.

    Biases, gains of norms and embeddings do not decay: the embeddings of rare tokens would fade to 0.
    """
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    matrices = [p for p in parameters if p.ndim >= 2 and id(p) not in embeddings]
    others = [p for p in parameters if p.ndim < 2 or id(p) in embeddings]
    groups = [
        {"params": matrices, "weight_decay": weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return AdamW(groups, lr=learning_rate, betas=BETAS, eps=EPSILON, fused=True)


def set_learning_rate(optimiser: Optimizer, learning_rate: float) -> None:
    """Set the learning rate of the next step."""
    for group in optimiser.param_groups:
        group["lr"] = learning_rate
