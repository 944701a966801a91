"""Scores: how well each query matches each key, before the mask. Each kind has a file of its own."""
