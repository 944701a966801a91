"""Backends: implementations that compute the context of `attend`, one per file; `choose.py` chooses one of them."""
