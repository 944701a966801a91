"""The GPU engine: two Triton kernels that compute softmax attention and its statistics.

In the kernel of `rows.py` each program computes a block of queries; in that of `columns.py`, a block of keys.
"""
