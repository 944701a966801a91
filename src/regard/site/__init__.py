"""Write a folder, for any web server, with a page that runs a model in the reader's browser and shows its attention.

    index.html         the page, with a first trace in it
    learn.html         the course of `regard learn`; it and the page link to each other
    worker.js          the web worker in which the models run
    runtime.deflate    ONNX Runtime for browsers, compressed
    …                  the files of each model; see text_model.py and translator_model.py

folder.py              writes the folder
exported.py            an exported model, and its description for the page as JSON
text_model.py          the files of an encoder of text, such as MiniLM, or of a causal model, such as GPT-2
graph.py               the ONNX graph of an encoder or a causal model
tokenizer.py           tables with which the page splits a text into tokens; made by wordpiece.py or byte_pairs.py
translator_model.py    the files of a translator
translator_graphs.py   the two ONNX graphs of a translator
spm_check.py           which SentencePiece vocabularies the page can read
unicode_tables.py      ranges of code points, such as those that Python's version of Unicode does not define
check.py               compares a graph's weights with those of `regard.trace`
runtime.py             where ONNX Runtime for browsers comes from
"""

from regard.site.folder import Site, write_site

__all__ = ["Site", "write_site"]
