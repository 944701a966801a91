"""Positions of tokens, as vectors added to the tokens or as rotations of queries and keys.

    sinusoidal          a vector of sines and cosines                    Vaswani et al. 2017, section 3.5
    LearnedPositions    a learned vector for each position               Gehring et al. 2017, section 3.1
    Rotary              queries and keys rotated by their positions      Su et al. 2021, equation 34

For scores and biases that depend on positions, see `scores/biases/` and `scores/shaw.py`.
"""
