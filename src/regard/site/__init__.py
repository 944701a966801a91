"""A folder, for any web server, with a page that runs a model in the reader's browser and shows its attention.

index.html         the page; it opens with a model's attention to one text
learn.html         the course of `regard learn`; it and the page link to each other
worker.js          the web worker in which the models run
runtime.deflate    ONNX Runtime for browsers, compressed
…                  the files of each model; see text_model.py and translator_model.py
"""

from regard.site.folder import Site, write_site

__all__ = ["Site", "write_site"]
