"""Views in the terminal: a trace, a comparison, roles and effects of heads, and attention worked out by hand."""
