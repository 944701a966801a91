"""Normalisers: turn the scores of a query into the weights of the values. Each normaliser has a file of its own."""
