"""What attention adds to the vectors of the tokens, and changes to the attention of a model."""
