"""Traces: the attention patterns of a model that reads a text, in every layer and head.

run.py              run a Hugging Face model on a text and record its attention: `regard.trace`
trace.py            the record: `Trace`
trace_file.py       save a trace to a file and load it
head.py             one head of a trace, indexed by tokens
focus.py            choose the query token and the head that a view shows
huggingface.py      make a Hugging Face model compute its attention through regard: `regard.install`
model_loading.py    load a Hugging Face model with its tokenizer
encoding.py         encode a text as the inputs of a model
readable_tokens.py  `Token`: a token with its readable text
token_reference.py  find a token by its position or its text
"""
