"""The attention mechanism: scores, masks, normalisers, the context, and the pattern of attention weights.

Start with `attend.py`. This package imports `regard.kernels`, and no other package of regard.
"""
