"""The Transformer: encoder and decoder blocks that look at each other through attention alone."""
