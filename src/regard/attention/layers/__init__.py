"""Attention layers with parameters (multi-head and latent attention), and a loss that trains hard attention."""
