"""Views of an evaluation, the scores of translations, in the terminal and as a web page.

    words.py      which words of two texts differ
    wording.py    the words and numbers that both views share
    text.py       in the terminal
    page.py       as one web page

Nothing here imports torch: two text files can be evaluated and shown without it.
"""
