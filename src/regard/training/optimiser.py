"""AdamW with weight decay for weight matrices only, not for biases, norms and embeddings.

Source: Kingma & Ba 2015; Loshchilov & Hutter 2019; the β and ε of Vaswani et al. 2017, section 5.3.
"""

from torch import nn
from torch.optim import AdamW, Optimizer

BETAS, EPSILON = (0.9, 0.98), 1e-9
"""β1 and β2, the decay rates of the two moments, and ε, which is added to the root of the second moment."""


def make_optimiser(model: nn.Module, learning_rate: float, weight_decay: float) -> Optimizer:
    """Return AdamW for a model that is already on its training device.

    Weight decay applies to the parameters of two or more dimensions, except embeddings. A rare token seldom gets a
    gradient, so decay would shrink its embedding to 0.
    """
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    matrices = [p for p in parameters if p.ndim >= 2 and id(p) not in embeddings]
    undecayed = [p for p in parameters if p.ndim < 2 or id(p) in embeddings]
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": undecayed, "weight_decay": 0.0}]
    return AdamW(groups, lr=learning_rate, betas=BETAS, eps=EPSILON, fused=True)
