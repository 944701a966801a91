"""The command line: `main.py` defines the command `regard`; each verb (subcommand), such as look, has its own file."""
