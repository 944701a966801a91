"""Traces, alignments and evaluations in the terminal, as pictures, as web pages and as JSON. No module here runs a
model.
"""
