"""Normalisers, which turn the scores of each query over all keys into its attention weights, such as softmax."""
