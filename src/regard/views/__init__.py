"""Ways to see a trace: the terminal, a picture, a page. Views know traces and patterns, never models."""
