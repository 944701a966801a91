"""Verbs of the command line, run inside the test process."""

from typer.testing import CliRunner, Result

from regard import InputError
from regard.cli.main import app
from regard.cli.option_names import with_option_names


def invoke(*arguments: object, text: str | bytes | None = None, columns: int | None = 80) -> Result:
    """Run a verb; columns None = as in a pipe."""
    runner = CliRunner(env={"NO_COLOR": "1", "COLUMNS": None if columns is None else str(columns)})
    return runner.invoke(app, [str(argument) for argument in arguments], input=text)


def output(*arguments: object, text: str | bytes | None = None, columns: int | None = 80) -> str:
    """Run a verb that succeeds; return what it printed."""
    result = invoke(*arguments, text=text, columns=columns)
    assert result.exit_code == 0, result.exception or result.output
    return result.stdout


def refused(*arguments: object, text: str | bytes | None = None) -> str:
    """Run a verb that refuses its input; return the message, as the command prints it."""
    result = invoke(*arguments, text=text)
    assert isinstance(result.exception, InputError), result.output
    return with_option_names(str(result.exception))
