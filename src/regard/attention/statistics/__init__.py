"""Statistics of the attention weights, computed without storing the queries × keys matrix.

They are computed by `cpu.engine` (a C kernel), by `gpu.engine` (Triton kernels), or else by torch operations (`torch`).
"""
