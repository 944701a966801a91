"""Backends: ways to compute the same context, each in its own file; `choose.py` chooses one for a call."""
