"""Search algorithms for translations: greedy search, beam search, sampling and minimum Bayes risk."""
