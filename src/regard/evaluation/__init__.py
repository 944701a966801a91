"""Evaluation of translations against references: BLEU, chrF, TER and exact matches."""
