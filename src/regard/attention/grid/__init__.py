"""The grid batch × heads × queries × keys: the shape of the attention weights, their blocks (tiles), and indexing."""
