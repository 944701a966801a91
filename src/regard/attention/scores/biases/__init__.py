"""Biases: rules that compute numbers to be added to the scores. Each rule has its own file."""
