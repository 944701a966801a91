"""A copy of F.multi_head_attention_forward whose operations a TorchFunctionMode sees."""

from types import FunctionType

import torch.nn.functional as F

multi_head_attention_forward = FunctionType(
    F.multi_head_attention_forward.__code__,
    {**vars(F), "has_torch_function": lambda tensors: False},  # asked whether to pass the function itself to the mode
    argdefs=F.multi_head_attention_forward.__defaults__,
)
"""A copy of F.multi_head_attention_forward that passes each of its operations to the active TorchFunctionMode.

The original passes only itself, as one operation, so the attention inside it could not be recorded or changed.
"""
