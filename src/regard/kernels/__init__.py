"""C kernels for CPUs, and the Python code that compiles, loads and calls them."""
