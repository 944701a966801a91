"""Effects of attention: what attention adds to the vector of a token, and how a model changes if attention changes.

changes.py         change attention: hide a token from another token, silence a head, sharpen its weights
contributions.py   the vectors that the keys of a query add to the token of the query
distance.py        the difference of two attention patterns
interchange.py     replace the output of a head by its output in another run
movement.py        the change of a token's vector in each layer, and which parts of the layer cause it
roles.py           how much a head attends to the previous token, the first token, separators, …
rollout.py         how much each input token contributes to a token's vector, through all layers
"""
