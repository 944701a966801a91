"""Statistics computed by torch operations, for any normaliser, data type and device."""
