"""From two text files to batches: cleaning, dev split, vocabularies, token ids on disk."""
