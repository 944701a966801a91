"""The effects of attention: the vectors that it adds to each token, and a model whose attention is changed."""
