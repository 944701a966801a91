"""Text for training a translator: parallel text files, the vocabulary, a corpus of token ids, and its batches."""
