"""Incremental decoding: compute one more target token for each row, from cached keys and values of earlier tokens.

A step is computed by `Decoder.forward`; or on a CPU, for the decoders that it supports, by one call of a C kernel.

state.py      the state of a decoder between two steps
cache.py      the keys and values of earlier tokens
kernel.py     the incremental decoding step as one C call
supported.py  which decoders the C kernel supports
"""
