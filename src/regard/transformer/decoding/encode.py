"""One call of a C kernel encodes short sources on the CPU and computes their keys and values of cross-attention.

For one source of ten tokens, PyTorch takes longer to call its functions than to compute. The kernel,
`kernels/encode.c`, computes the same numbers as `Encoder.forward` and then `Decoder.start`.
"""

import ctypes

import torch
from einops import rearrange
from jaxtyping import Int
from torch import Tensor

from regard.attention.layers.key_value import KeyValue
from regard.kernels.library import c_function, check_arguments
from regard.kernels.structs import fields_of
from regard.kernels.threads import run_on_threads
from regard.transformer.decoding.parameters import EmbeddingParameters, KernelModule, LinearParameters, StackParameters

MOST_TOKENS = 512
"""The kernel encodes sources of at most 512 tokens, each on one thread; PyTorch encodes longer ones on all threads."""


class EncodeArguments(ctypes.Structure):
    """The C struct `EncodeArguments` of encode.c."""

    _fields_ = fields_of(  # the keywords: the Python class of each struct that the C struct contains or points to
        "encode.c", "EncodeArguments", Stack=StackParameters, Embedding=EmbeddingParameters, Linear=LinearParameters
    )
    _anonymous_ = ("stack",)  # the fields of `stack` can be used as fields of this struct


def is_encoding_supported(encoder: KernelModule, source: Int[Tensor, "sources tokens"]) -> bool:
    """Return whether the kernel can encode a batch of sources, padded on the right."""
    return encoder.rotary is None and source.shape[1] <= min(MOST_TOKENS, encoder.embedding.n_positions)


def encode(
    encoder: KernelModule,
    decoder: KernelModule,
    source: Int[Tensor, "sources tokens"],
    lengths: Int[Tensor, " sources"] | None,
) -> tuple[KeyValue, ...]:
    """Return each decoder block's cross-attention keys and values of the sources; those of padding are 0.

    Args:
        lengths: the number of tokens of each source before its padding; None = no padding.
    """
    n_sources, n_tokens = source.shape
    n_linear_layers = len(decoder.memory_layers)  # two for each block: keys, values
    source = source.long().contiguous()
    lengths = None if lengths is None else lengths.long().contiguous()
    # The kernel does not write the keys and values of padding: they must be 0 before.
    allocate = source.new_empty if lengths is None else source.new_zeros
    memory = allocate(n_linear_layers, n_sources, n_tokens, decoder.memory_layers[0].n_out, dtype=torch.float32)
    n_threads = min(torch.get_num_threads(), n_sources)
    x = memory.new_empty(source.numel() * encoder.stack.d_model)
    scratch_numbers = encoder.stack.scratch_numbers(rows=n_tokens, tokens=n_tokens)  # all tokens attend to all
    scratch = memory.new_empty(n_threads * scratch_numbers)
    arguments = EncodeArguments(
        stack=encoder.stack,
        sources=n_sources,
        tokens=n_tokens,
        lengths=None if lengths is None else lengths.data_ptr(),
        embedding=encoder.embedding,
        ids=source.data_ptr(),
        x=x.data_ptr(),
        layers=decoder.memory_layers,
        n_layers=n_linear_layers,
        memory=memory.data_ptr(),
        scratch=scratch.data_ptr(),
        scratch_numbers=scratch_numbers,
    )
    check_arguments("regard_encode", arguments)
    run_on_threads(c_function("regard_encode"), arguments, n_threads)
    by_head = "(blocks key_and_value) sources tokens (heads d_head) -> blocks key_and_value sources heads tokens d_head"
    blocks = rearrange(memory, by_head, key_and_value=2, d_head=decoder.stack.d_head)
    return tuple(KeyValue(key=key, value=value) for key, value in blocks.unbind(0))
