"""Pictures with an inverted part, and the places of tokens in pictures, for tests of traces."""

import numpy as np
from PIL import Image

from regard.tracing.tokens.places import Patch


def with_inverted(picture, part):
    """Return a copy of a picture in which the colours of one part, such as np.s_[8:16, 40:48], are inverted."""
    changed = np.array(picture)
    changed[part] = 255 - changed[part]
    return Image.fromarray(changed) if isinstance(picture, Image.Image) else changed


def changed_tokens(one, other, head="decoder L0H0", side="query", atol=1e-6):
    """Return the tokens whose queries (or keys: side="key") in the layer of a head differ between two traces."""
    before, after = (getattr(trace[head].pattern, side) for trace in (one, other))
    tokens = one[head].queries if side == "query" else one[head].keys
    return [tokens[i] for i in ((before - after).abs().amax(dim=(0, 1, 3)) > atol).nonzero()[:, 0].tolist()]


def patches(n_pictures, rows, columns, size):
    """Return the square patches of pictures of equal size: picture by picture, row by row."""
    places = np.ndindex(n_pictures, rows, columns)
    return [Patch(image, row, column, size, size) for image, row, column in places]


def places(tokens):
    """Return the places of the tokens that have one."""
    return [token.place for token in tokens if token.place is not None]
