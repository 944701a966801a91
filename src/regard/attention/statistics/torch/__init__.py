"""Statistics computed with torch operations, for any normaliser, data type and device."""
