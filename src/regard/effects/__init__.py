"""The vectors that attention adds to those of the tokens, and changes to the attention of a model."""
