"""Backends: implementations of `attend`, one per file; `choose.py` chooses one of them for each call."""
