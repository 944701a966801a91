"""Pictures, videos and recordings as input of a model, and the place of each token in them."""
