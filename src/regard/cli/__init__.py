"""The command line: `main.py` defines the command `regard`, and one file each verb (subcommand), such as look."""
