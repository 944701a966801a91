"""An evaluation (the scores of translations) in the terminal and as a web page.

No module here imports torch, so that two text files can be evaluated and shown without torch.
"""
