"""Biases: numbers that a rule adds to the scores. Each rule has a file of its own."""
