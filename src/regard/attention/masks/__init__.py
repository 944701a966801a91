"""Masks: which keys each query may attend to. True = may attend.

A mask is a rule over positions, not a matrix: attention computes it for one tile of the grid at a time, so a causal
mask over a million tokens takes no memory. Masks join with `&` (both must allow), `|` (one must allow) and `~` (the
opposite):

    Causal() & Documents(ids)                       several texts in one sequence of a language model
    Window(256, 256) | Global([0])                  Longformer

The queries are the *last* tokens, as they are with a cache of earlier keys: query i stands at position
i + keys - queries. Masks that count positions take another `offset` for other cases.

    python -m regard.attention.masks        draws each mask
"""

from regard.attention.masks.causal import Causal as Causal
from regard.attention.masks.causal import Prefix as Prefix
from regard.attention.masks.chunked import Chunked as Chunked
from regard.attention.masks.documents import Documents as Documents
from regard.attention.masks.global_tokens import Global as Global
from regard.attention.masks.keep import Keep as Keep
from regard.attention.masks.keep import as_mask as as_mask
from regard.attention.masks.mask import Both as Both
from regard.attention.masks.mask import Either as Either
from regard.attention.masks.mask import Mask as Mask
from regard.attention.masks.mask import Opposite as Opposite
from regard.attention.masks.padding import Padding as Padding
from regard.attention.masks.range_mask import RangeMask as RangeMask
from regard.attention.masks.window import Dilated as Dilated
from regard.attention.masks.window import Window as Window
