"""The attention mechanism: score, mask, normalise, read; and the pattern of who looks at whom.

Start with `attend.py`. This room imports torch and nothing of regard's other rooms.
"""
