"""Statistics of attention patterns: what is asked of them, and the ways to gather it without the matrix."""
