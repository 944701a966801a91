"""AdamW over a model's parameters: matrices decay, all else does not.

Source: Kingma & Ba 2015; Loshchilov & Hutter 2019; the β and ε of Vaswani et al. 2017, section 5.3.
"""

from torch import nn
from torch.optim import AdamW, Optimizer

BETAS = (0.9, 0.98)
EPSILON = 1e-9


def make_optimiser(model: nn.Module, learning_rate: float, weight_decay: float) -> Optimizer:
    """The optimiser of a model that is on its device.

    A bias, a norm's gain or an embedding has nothing to gain from being pulled to 0: rare tokens' rows would fade.
    """
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    named = [parameter for parameter in model.parameters() if parameter.requires_grad]
    decays = [p.ndim >= 2 and id(p) not in embeddings for p in named]
    groups = [
        {"params": [p for p, does in zip(named, decays, strict=True) if does], "weight_decay": weight_decay},
        {"params": [p for p, does in zip(named, decays, strict=True) if not does], "weight_decay": 0.0},
    ]
    return AdamW(groups, lr=learning_rate, betas=BETAS, eps=EPSILON, fused=True)


def set_learning_rate(optimiser: Optimizer, learning_rate: float) -> None:
    """The rate of the next step."""
    for group in optimiser.param_groups:
        group["lr"] = learning_rate
