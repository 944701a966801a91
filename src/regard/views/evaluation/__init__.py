"""How good translations are, as text and as a page.

    record.py    what an evaluation must say to be shown
    words.py     which words of two texts differ
    text.py      in the terminal
    page.py      as one web page

Nothing here imports torch: two text files are measured and shown without it.
"""
