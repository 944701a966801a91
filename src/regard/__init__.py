"""regard: attention you can see.

    from regard import attend, Causal       attention as a function; its result has the weights of every query
    regard.install(model)                   for a Hugging Face model: fused attention, and weights in outputs.attentions
    regard.trace(model, text)               which token attends to which, in every layer and head

`__init__.pyi` lists every public name with its module. A name is imported when it is first used, so `import regard`
imports neither torch nor transformers.
"""

import lazy_loader

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
