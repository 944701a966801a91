"""A model's attention as a folder for any web server: the model itself runs in the reader's browser.

    index.html         the page, with a first trace in it
    worker.js          the worker in which the models run
    runtime.deflate    ONNX Runtime for browsers, compressed
    …                  the files of each model; see encoder_model.py and translator_model.py

folder.py              writes the folder
exported.py            an exported model, and its record for the page
encoder_model.py       the files of an encoder of text, such as MiniLM
graph.py               an encoder as an ONNX graph
wordpiece.py           the tables of its tokenizer
translator_model.py    the files of a translator
translator_graphs.py   a translator as two ONNX graphs
spm_check.py           which vocabularies the page can read
unicode_tables.py      letters as ranges of code points
check.py               compares a graph's weights with those of `regard.trace`
runtime.py             where ONNX Runtime for browsers comes from
"""

from regard.site.folder import Site, write_site

__all__ = ["Site", "write_site"]
