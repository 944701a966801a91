"""Traces: the attention patterns of a model that reads a text, in every layer and head.

run.py            run a Hugging Face model on a text and record its attention: `regard.trace`
trace.py          the record: `Trace`
trace_file.py     a trace in a file
head.py           one head of a trace, indexed by tokens
focus.py          the token and the head to show first
huggingface.py    install regard in a Hugging Face model
model_loading.py  load a model and its tokenizer
encoding.py       a text as the ids and tokens of a model
tokens.py         tokens as a reader sees them
"""
