"""Masks: which keys each query may attend to. True = may attend.

A mask is a rule, evaluated for one block of queries × keys at a time, so that a causal mask over a million tokens takes
no memory. Masks are joined with `&` (both masks allow the key), `|` (at least one mask allows it) and `~` (the mask
does not allow it):

    Causal() & Documents(ids)                       several texts in one sequence of a language model
    Window(before=256, after=256) | Global([0])     Longformer, whose token 0 is global

The queries are taken to be the *last* tokens, as when decoding with a cache of keys. For other queries, the argument
`offset` of masks that depend on positions is the key position of query 0.

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
