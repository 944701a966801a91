"""The tokens of a trace.

readable_tokens.py   `Token`: a token with its readable text
id_tokens.py         tokens of a model that reads token ids and has no tokenizer
token_reference.py   find a token by its position or its text
words.py             the words of a text, from its tokens
places.py            the part of a picture or a recording that a token stands for
prompt.py            a text, the messages of a chat, or token ids
encoding.py          encode a text as input tensors
"""
