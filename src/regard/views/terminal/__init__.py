"""Views in the terminal: a trace, attention worked out by hand as matrices, tables."""
