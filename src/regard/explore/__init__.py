"""The explorer: an HTTP server on this machine with the page of a trace, on which the reader can type another text.

server.py     the endpoints of the server
guard.py      which requests are refused
session.py    the model in memory, and the answers to requests
question.py   the content of a request
map.py        the weights of a long text, as square images (tiles) of 256 × 256 cells
"""
