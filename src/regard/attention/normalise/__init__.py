"""Normalisers: from the scores of one query to weights that say how much of each value it takes. Each kind a file."""
