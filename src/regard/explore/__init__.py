"""The explorer (`regard explore`): an HTTP server on this machine, whose web page shows the attention to a text.

The reader of the page can type another text. The server then runs the model on this text, and answers with the trace:
the tokens of the text and the attention of all heads.
"""
