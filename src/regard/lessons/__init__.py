"""The lessons of `regard learn`, which explain attention with numbers that the reader can follow."""
