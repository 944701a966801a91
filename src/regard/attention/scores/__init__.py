"""Scores: how well each query matches each key, before the mask. Each kind of score has its own file."""
