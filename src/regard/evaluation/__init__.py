"""Scoring translations against reference translations: BLEU, chrF, TER and exact matches."""
