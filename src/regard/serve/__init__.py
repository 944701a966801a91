"""The translation service that `regard serve` runs: an HTTP server that translates texts with one translator.

question.py   from the JSON of a request to its texts, and from translations to the JSON of the answer
batching.py   translates the texts of waiting requests as one batch
openapi.py    describes the service in the OpenAPI format and as an HTML page
server.py     the HTTP endpoints
"""
