"""Attention worked out by hand: the matrix of every step, computed from given numbers or for a head of a model."""
