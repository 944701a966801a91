"""The explorer (`regard explore`): an HTTP server on this machine, whose web page shows the attention to a text.

The reader of the page can type another text. The server then runs the model on this text, and answers with the trace:
the tokens of the text and the attention of all heads.

server.py         the endpoints of the server
guard.py          which requests are refused
session.py        the model in memory, and the answers to requests
continuation.py   a text continued by a causal language model
question.py       what a request asks for: a text, generated tokens, changes to heads
map.py            the weights of a long text as an image, in square parts (tiles) of 256 × 256 cells
"""
