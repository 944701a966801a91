"""The shape batch × heads × queries × keys of the attention weights, and blocks of weights selected by indices."""
