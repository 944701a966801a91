"""Training in several processes at once, on one machine or several."""
