"""Views in the terminal: a trace, the matrices of worked attention, tables."""
