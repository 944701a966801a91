"""What attention adds to the vector of each token, and how a model changes if its attention is changed."""
