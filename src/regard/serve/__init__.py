"""The translation service: a translator behind HTTP, for `regard serve`.

question.py   the content of a request, and its answer
batching.py   requests that arrive together are translated together
openapi.py    the description of the service for programs and for people
server.py     the addresses of the service and their answers
"""
