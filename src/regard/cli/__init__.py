"""The command line: `regard VERB`, one file a verb. Start with `main.py`."""
