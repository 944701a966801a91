"""The GPU engine: Triton kernels that compute softmax attention and its statistics (see `engine.py`)."""
