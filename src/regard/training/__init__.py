"""Training a translator from two text files; a training can be stopped and resumed at any step."""
