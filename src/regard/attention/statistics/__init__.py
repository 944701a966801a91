"""Engines: modules that compute statistics of attention weights without storing the queries × keys matrix."""
