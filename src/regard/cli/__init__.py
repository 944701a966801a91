"""The command line: `main.py` defines the command `regard`, and a file for each verb defines `regard VERB`.

A verb is a subcommand, such as look or train.
"""
