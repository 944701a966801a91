"""The explorer: the page of a trace, served on this machine, with a field in which to type another text.

server.py     the addresses that the server answers
guard.py      which requests are answered at all
session.py    the one model in memory, and its answers
question.py   what a request asks for
"""
