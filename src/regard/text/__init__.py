"""Two text files with a sentence a line become a vocabulary and batches of token ids."""
