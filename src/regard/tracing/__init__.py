"""Traces: the attention patterns of a model, in every layer and head, for one text, picture or recording.

Start with `run.py` (`regard.trace`), which runs a Hugging Face model, and `trace.py`, the record that it returns.
"""
