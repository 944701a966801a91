"""Saves traces to safetensors files, and loads them.

trace_file.py      save a trace and load it
rule_json.py       scores, masks and normalisers as JSON
answered_file.py   the part of a file with statistics that were kept in place of queries and keys
states_file.py     the part of a file with the vectors before, inside and after every layer
"""
