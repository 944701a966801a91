"""The attention of a trace, and other results, as pictures in PNG, SVG or PDF files."""
