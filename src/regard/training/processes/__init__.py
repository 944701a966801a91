"""Training in several processes, on one machine or several."""
