"""regard: attention you can see.

    from regard import attend, Causal       attention as a function; its result has the weights of every query
    regard.install(model)                   for a Hugging Face model: fused attention, and weights in outputs.attentions
    regard.trace(model, text)               which token attends to which, in every layer and head

`__init__.pyi` lists every public name with its module. A name is imported when it is first used, so `import regard`
imports neither torch nor transformers.
"""

import sys

import lazy_loader

__version__ = "0.1.0"
_NAMES_IN_PYTORCH = {"scaled_dot_product_attention": "attend", "sdpa": "attend", "flex_attention": "attend"}
_import_name, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    """Import and return a public name of `__init__.pyi`; for other names, raise AttributeError with similar names."""
    if name in __all__:
        return _import_name(name)
    from difflib import get_close_matches

    near = _NAMES_IN_PYTORCH.get(name) or ", ".join(get_close_matches(name, __all__))
    raise AttributeError(f"module 'regard' has no attribute {name!r}" + (f"; nearest: {near}" if near else ""))


def _prepare_notebook() -> None:
    """If the code runs in a notebook, let IPython show a `Pattern` (attention weights of all heads) as a picture."""
    if "IPython" in sys.modules and (shell := sys.modules["IPython"].get_ipython()) is not None:
        from regard.views.in_notebook import show_patterns

        show_patterns(shell.display_formatter)


_prepare_notebook()
