"""Incremental decoding: one more token for each row, with the keys and values of earlier tokens cached."""
