"""C kernels for a CPU, and what compiles, loads and calls them."""
