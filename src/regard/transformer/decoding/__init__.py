"""Incremental decoding: one more token for each row, with the keys and values of earlier tokens cached.

The ordinary step is the decoder's own forward (`decoder.py`, `block.py`). On a CPU, a C kernel takes it where it can.

state.py      the state of a decoder between two steps
cache.py      the keys and values of earlier tokens
kernel.py     the incremental decoding step as one C call
supported.py  the decoders and sources that the C kernel supports
"""
