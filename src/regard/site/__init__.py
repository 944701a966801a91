"""A model's attention as a folder for any web server: the model itself runs in the reader's browser.

    index.html         the page, with a first trace in it
    worker.js          the worker in which the model runs
    model.onnx         the model: token ids in; queries, keys and values of every layer out
    tokenizer.json     what the worker needs to split a text into tokens
    runtime.deflate    ONNX Runtime for browsers, compressed

folder.py      writes the folder
graph.py       the model as an ONNX graph
check.py       compares the graph's weights with those of `regard.trace`
wordpiece.py   the tokenizer's tables
runtime.py     where ONNX Runtime for browsers comes from
"""

from regard.site.folder import Site, write_site

__all__ = ["Site", "write_site"]
