"""Search algorithms for translations: greedy search, beam search and sampling."""
