"""The tokens of a trace: their text, words, and parts of a picture or recording; and how a text is encoded."""
