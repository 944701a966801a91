"""Search for a translation: greedy search, beam search and sampling."""
