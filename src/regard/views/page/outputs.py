"""The output projection W_O of a layer, with which a page shows how much each head contributes to the layer's output.

    output = context of head 0 · W_O[0] + … + context of the last head · W_O[last] + bias

Each term is a vector, the contribution of one head. The page computes the first N_SHOWN numbers of each term itself,
from queries, keys, values and the first columns of W_O. For the length (L2 norm) of a term, the page would need the
whole matrix W_O, which is too large. So the lengths are stored.
"""

from typing import Any

import torch
from einops import rearrange

from regard.attention.attend import Attended
from regard.effects.movement import LayerStates
from regard.views.page.movement import array_record

N_SHOWN = 8
"""The number of dimensions of output vectors that the page shows."""


def output_record(name: str, attended: Attended, state: LayerStates, blocks: dict[str, str]) -> dict[str, Any] | None:
    """Add these arrays of a layer to `blocks`, with names that begin with `name`, and return their JSON record:

        columns        [heads × d_value, N_SHOWN]   the first columns of W_O
        bias           [N_SHOWN]                    the first numbers of the bias; missing if there is no bias
        output         [queries, N_SHOWN]           the first numbers of the output, as the model's layer returned it
        lengths        [heads, queries]             the length of each context vector · W_O
        value_lengths  [heads, keys]                the length of each value vector · W_O

    None if the layer has fewer output vectors than queries, because it merges queries.
    """
    pattern = attended.pattern
    state = state.to(pattern.call.weights_dtype)
    projection = state.projection
    outputs = state.attention  # the output vectors of the layer's attention [queries d_model]
    if len(outputs) != pattern.shape[2]:
        return None
    weight = projection.weight
    queries_per_value = pattern.n_heads // pattern.value.shape[1]  # how many query heads share one value head
    values = pattern.value[0].repeat_interleave(queries_per_value, dim=0).to(weight)
    arrays = {
        "columns": rearrange(weight[:, :, :N_SHOWN], "h v d -> (h v) d"),
        "output": outputs[:, :N_SHOWN],
        "lengths": torch.einsum("hqv,hvd->hqd", attended.context[0].to(weight), weight).norm(dim=-1),
        "value_lengths": torch.einsum("hkv,hvd->hkd", values, weight).norm(dim=-1),
    }
    if projection.bias is not None:
        arrays["bias"] = projection.bias[:N_SHOWN]
    return {
        "width": weight.shape[2],
        "arrays": {part: array_record(f"{name} {part}", array.float(), blocks) for part, array in arrays.items()},
    }
