"""Effects of attention: what it adds to a token, and what changes without it.

changes.py         cut an edge between two tokens, silence a head, sharpen its weights
contributions.py   the vectors that the keys of a query add to it
distance.py        how far two patterns are apart
movement.py        how the layers move a token's vector
roles.py           how much of a head's attention goes to the previous token, the first, separators, …
rollout.py         the share of each input token in a token's vector, through all layers
"""
