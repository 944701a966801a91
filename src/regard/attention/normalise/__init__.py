"""Normalisers: rules such as softmax, which turn the scores of a query with all keys into its attention weights."""
