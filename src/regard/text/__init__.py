"""Text for training a translator: parallel text files, vocabularies, a corpus of token ids, and its batches."""
