"""Translation: the translator, the folder that stores it, the search algorithms, and word alignment."""
