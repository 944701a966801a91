"""The translation service: a translator behind HTTP, for `regard serve`.

question.py   what a request may ask
batching.py   requests that arrive together are translated together
openapi.py    the service's description for programs
server.py     the addresses and their answers
"""
