"""Views of an evaluation (the scores of translations) in the terminal and as a web page.

words.py      the words in which two texts differ
wording.py    numbers and notes as text, for both views
text.py       the view in the terminal
page.py       the view as one web page

Nothing here imports torch: two text files can be evaluated and shown without it.
"""
