"""The explorer: the page of a trace, served on this machine, with a field in which to type another text.

server.py     the endpoints of the server
guard.py      which requests are refused
session.py    the model in memory, and its answers
question.py   the content of a request
map.py        the weights of a long text, in tiles
"""
