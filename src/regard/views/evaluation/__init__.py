"""Views of an evaluation (the scores of translations) in the terminal and as a web page.

words.py      the words in which two texts differ
wording.py    numbers and notes as text, for the terminal and the page
text.py       the view in the terminal
page.py       the view as one web page

No module here imports torch, so that two text files can be evaluated and shown without torch.
"""
