"""Statistics of the attention weights, computed without storing the queries × keys matrix."""
