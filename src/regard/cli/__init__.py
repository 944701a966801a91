"""The command line: `regard VERB`, one file for each verb; `main.py` has the command itself."""
