"""Training: from two text files to a translator, stoppable at any moment."""
