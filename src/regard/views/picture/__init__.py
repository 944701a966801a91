"""Draw the attention of a trace as a picture in a PNG, SVG or PDF file.

trace.py            a whole picture: the text with one query's weights, the pattern of its head, a grid of all heads
sentence.py         a part of that picture: the text, with tinted tokens and arcs
pattern.py          a part of that picture: the pattern of one head, as circles or shaded cells
head_grid.py        a part of that picture: one query's largest weight in each head
one_head.py         a whole picture: the pattern of one head, with its name
heads.py            a whole picture: the patterns of all heads side by side
media.py            a whole picture: one query's weights on image patches or on moments of sound
weights.py          a whole picture: the weights of a `Pattern`
comparison.py       a whole picture: the differences between two traces
indirect_effects.py a whole picture: how much of another run the output of each head restores
roles.py            a whole picture: how much each head attends to certain kinds of keys
canvas.py           the page to draw on, and the file
fonts.py            fonts for the letters of any script
"""
