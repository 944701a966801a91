"""Settings of a training: as the user writes them, and as derived from the corpus and the device."""
