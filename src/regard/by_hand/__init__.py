"""Attention worked out by hand: every matrix of every step, from numbers or from a head of a model."""
