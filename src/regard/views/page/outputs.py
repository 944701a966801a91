"""Encode for a page what the output projection W_O of a layer makes of the heads' context vectors.

    output = context of head 0 · W_O[0] + … + context of the last head · W_O[last] + bias

The page computes the first numbers of each term itself, from queries, keys, values and the first columns of W_O. The
lengths of the whole vectors are stored, since W_O is too large for a page.
"""

from typing import Any

import torch
from einops import rearrange

from regard.attention.attend import Attended
from regard.effects.movement import LayerStates
from regard.views.page.movement import array_record

N_SHOWN = 8
"""The number of dimensions of a layer's output that the page shows."""


def output_record(name: str, attended: Attended, state: LayerStates, blocks: dict[str, str]) -> dict[str, Any] | None:
    """Encode a layer's output projection into `blocks`; return the JSON record of these arrays:

        columns        [heads × d_value, N_SHOWN]   the first columns of W_O
        bias           [N_SHOWN]                    the first numbers of the bias; missing if there is no bias
        output         [queries, N_SHOWN]           the first numbers of the output, as the model's layer returned it
        lengths        [heads, queries]             the length of context · W_O
        value_lengths  [heads, keys]                the length of value · W_O

    Args:
        name: the beginning of the names in `blocks`.
        attended, state: the layer's attention, and the vectors of all tokens in the layer.

    Returns:
        The record; None if the layer's output does not have a row for each query, because the layer merges queries.
    """
    projection, pattern = state.projection, attended.pattern
    if len(state.attention) != pattern.shape[2]:
        return None
    weight = projection.weight
    group = pattern.n_heads // pattern.value.shape[1]  # the number of query heads that share a value head
    values = pattern.value[0].repeat_interleave(group, dim=0).to(weight)
    arrays = {
        "columns": rearrange(weight[:, :, :N_SHOWN], "h v d -> (h v) d"),
        "output": state.attention[:, :N_SHOWN],
        "lengths": torch.einsum("hqv,hvd->hqd", attended.context[0].to(weight), weight).norm(dim=-1),
        "value_lengths": torch.einsum("hkv,hvd->hkd", values, weight).norm(dim=-1),
    }
    if projection.bias is not None:
        arrays["bias"] = projection.bias[:N_SHOWN]
    return {
        "width": weight.shape[2],
        "arrays": {part: array_record(f"{name} {part}", array.float(), blocks) for part, array in arrays.items()},
    }
