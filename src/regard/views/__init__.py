"""Ways to see a trace, an alignment, worked-out attention, an evaluation: the terminal, a picture, a page.

Views know what they show, never models.
"""
