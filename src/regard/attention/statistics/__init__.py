"""Engines: modules that compute statistics of the attention weights without storing the queries × keys matrix.

The engines are `cpu.engine` (a C kernel), `gpu.engine` (Triton kernels) and `torch.engine` (torch operations).
"""
