"""`python -m regard VERB`: the command line, where the command itself is not on the path."""

from regard.cli.main import main

if __name__ == "__main__":
    main()
