"""Run the command line as `python -m regard VERB`, for instance where the command `regard` is not on the PATH."""

from regard.cli.main import main

if __name__ == "__main__":
    main()
