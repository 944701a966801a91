"""The grid batch × heads × queries × keys: the shape of the attention weights, their tiles, and indices of patterns."""
