"""Translation: the translator, its folder, its searches, and the alignment of its translations."""
