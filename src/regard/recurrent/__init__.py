"""The recurrent encoder-decoder with attention: a decoder that looks back at every word it has read."""
