"""Incremental decoding: compute one more token of each target text, from cached keys and values of earlier tokens.

`Decoder.forward` computes a decoding step. On a CPU, for most decoders, one call of a C kernel computes it instead.

state.py        the state of a decoder between two steps
encode.py       the encoder as one C call
kernel.py       the incremental decoding step as one C call
parameters.py   the arguments of the C kernels: pointers to a model's parameters
quantised.py    the same with weights as 8-bit integers
supported.py    which decoders the C kernel supports
"""
