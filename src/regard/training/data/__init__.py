"""From two text files to training batches: cleaning, taking out dev pairs, vocabularies, token ids on disk."""
