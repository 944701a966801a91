"""Views in the terminal: a trace, a comparison, the roles of heads, and attention worked out by hand."""
