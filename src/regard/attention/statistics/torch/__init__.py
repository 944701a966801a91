"""Statistics with torch operations: any normaliser, data type and device."""
