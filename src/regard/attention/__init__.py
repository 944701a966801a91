"""The attention mechanism: scores, masks, normalisers, the context, and the pattern of attention weights.

Start with `attend.py`. Of regard's other packages, this one imports only `kernels`.
"""
