"""The Transformer: an encoder and a decoder made of attention and feed-forward networks."""
