"""Statistics on a GPU: two Triton kernels, one with a program for each tile of queries, one for each tile of keys."""
