"""The GPU engine: two Triton kernels that compute softmax attention and its statistics.

A program (instance) of the kernel in `rows.py` computes a block of queries; in `columns.py`, a block of keys.
"""
