"""Backends: ways to compute the same context.

    reference   loops in float64, written to be read; what the others are tested against
    fused       PyTorch's scaled_dot_product_attention; see there for the two calls that build the matrix
    tiled       `Pattern.apply`: blocks of queries, for what the fused kernel cannot express

`attend` takes fused wherever it can express the call.
"""
