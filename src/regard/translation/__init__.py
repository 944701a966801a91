"""Translation: the translator, its folder, the searches for a translation, and word alignment."""
