"""Draws a trace as a picture: PNG, SVG or PDF.

trace.py        the weights of one token in one head, the pattern of the head, and a grid of all heads
sentence.py     the text with tinted tokens and arcs
pattern.py      the pattern of one head as circles or shaded cells
head_grid.py    one token's largest weight in every head
one_head.py     the pattern of one head
heads.py        the patterns of all heads side by side
canvas.py       the page to draw on, and the file
fonts.py        fonts for the letters of any script
"""
