"""Attention with parameters: multi-head and latent attention, and how hard attention is trained."""
