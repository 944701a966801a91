"""What attention does, and what happens without it.

changes.py      cut an edge between two tokens, silence a head, sharpen its weights
"""
