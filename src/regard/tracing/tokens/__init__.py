"""The tokens of a trace: their letters, words and places, and how a text is encoded."""
