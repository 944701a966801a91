"""Incremental decoding: compute one more token of each target text, from cached keys and values of earlier tokens.

`Decoder.forward` computes a decoding step. On a CPU, for most decoders, one call of a C kernel computes it instead.
"""
