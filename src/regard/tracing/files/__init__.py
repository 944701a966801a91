"""Traces as safetensors files. Start with trace_file.py."""
