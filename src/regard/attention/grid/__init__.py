"""The grid batch × heads × queries × keys of the attention weights, its tiles, and indexing by ints and slices."""
