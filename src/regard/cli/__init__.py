"""The command line: `regard VERB`, one file for each verb; `main.py` defines the command `regard`."""
