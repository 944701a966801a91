"""Translation: the translator, its folder, the search algorithms, and word alignment."""
