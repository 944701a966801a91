"""Backends: ways to compute the same context, each in its own file; `choice.py` says which does a call, and why."""
