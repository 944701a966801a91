"""The grid batch × heads × queries × keys: the shape of the attention weights, its blocks (tiles), and its indexing."""
