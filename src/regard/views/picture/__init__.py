"""Views as pictures: PNG, SVG or PDF."""
