"""The `regard` command: its verbs (subcommands such as `regard look`) and its exit statuses.

Bad input ends with one line on the error stream and status 2, Ctrl-C with status 130. Any other exception is a bug and
shows its traceback. Verbs import torch and transformers only when they run.
"""

import errno
import inspect
import os
import sys
from typing import NoReturn

import typer

from regard.cli.back_translate import back_translate
from regard.cli.compare import compare
from regard.cli.demo import demo
from regard.cli.evaluate import evaluate
from regard.cli.explain import explain
from regard.cli.explore import explore
from regard.cli.export import export
from regard.cli.help_names import RegardCommand, Verb
from regard.cli.learn import learn
from regard.cli.look import look
from regard.cli.option_names import with_option_names
from regard.cli.sample import sample
from regard.cli.scan import scan
from regard.cli.score import score
from regard.cli.serve import serve
from regard.cli.site import site
from regard.cli.train import train
from regard.cli.translate import translate
from regard.errors import InputError
from regard.visible_text import escape_controls

WRITE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""The error numbers of failed writes: no space on the disk, a quota, a file size limit, a defect of the disk."""

VERBS = {
    "Look at attention": (look, explore, site, compare, scan),
    "Learn how it works": (learn, demo, explain),
    "Translate": (sample, train, translate, evaluate, score, serve, back_translate, export),
}
"""The headings in `regard --help`, and the functions of the verbs (subcommands) below each heading."""


def help_text(docstring: str) -> str:
    r"""Return the docstring of a subcommand as help text: each paragraph on one line, which any terminal can wrap.

    A paragraph whose first line is \b keeps its lines.

    >>> help_text("Write\n    lines.\n\n    \b\n      regard look\n      regard scan\n    ")
    'Write lines.\n\n  regard look\n  regard scan'
    """
    paragraphs = inspect.cleandoc(docstring).split("\n\n")
    return "\n\n".join(
        paragraph.removeprefix("\b\n") if paragraph.startswith("\b") else paragraph.replace("\n", " ")
        for paragraph in paragraphs
    )


app = typer.Typer(
    name="regard",
    cls=RegardCommand,
    help="Attention you can see: who looks at whom in a model, exactly.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for group, verbs in VERBS.items():
    for verb in verbs:
        app.command(help=help_text(verb.__doc__ or ""), rich_help_panel=group, cls=Verb)(verb)


@app.callback(invoke_without_command=True)
def version(
    show: bool = typer.Option(
        False, "--version", help="Show the version and which compiled kernels are in use, and exit.", is_eager=True
    ),
) -> None:
    if show:
        from regard import __version__
        from regard.kernels.library import description

        print(f"regard {__version__}\n{description()}")
        raise typer.Exit


def limit_thread_spinning() -> None:
    """Let a waiting OpenMP thread sleep after it has checked for work 1000 times, unless the user has set a policy.

    Must run before torch is imported. By default, a waiting thread checks for work, and keeps its core, much longer.
    Measured on two cores, the default made training 4 % faster on an idle machine, but 27 times slower beside one other
    busy process, because the thread with work got no core.
    """
    if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys():
        os.environ["GOMP_SPINCOUNT"] = "1000"


def exit_with_message(message: str) -> NoReturn:
    print(f"regard: {escape_controls(message)}", file=sys.stderr)
    sys.exit(2)


def usage_message(error: typer.TyperException) -> str:
    """Return the message for a command line that Typer refuses: what is wrong, and which help to read."""
    message, context = error.format_message().rstrip("."), getattr(error, "ctx", None)
    if message.startswith("Got unexpected extra argument"):
        extra = message.partition(" (")[2].removesuffix(")")  # the extra words stand in brackets at the end
        parameters = [] if context is None else context.command.params
        if any("--input" in option.opts for option in parameters) and os.path.isfile(extra):  # noqa: PTH113 (Path(extra).is_file() raises OSError for a long text)
            message += f": use -i {extra}"
        elif any(parameter.name == "text" for parameter in parameters):
            message += ": a text of several words needs quotes around it"
    command = context.command_path if context else "regard"
    see = " See" if message.endswith("?") else "; see"  # a suggestion of Typer ends in a question mark
    return f"{message[0].lower()}{message[1:]}{see} {command} --help."


def run() -> None:
    limit_thread_spinning()
    if sys.stdout is None:
        exit_with_message("standard output is closed; send it to a file, or to /dev/null.")
    try:
        try:
            sys.exit(app(prog_name="regard", standalone_mode=False))
        finally:
            sys.stdout.flush()
    except InputError as error:
        exit_with_message(with_option_names(str(error)))  # such as --layer 0 in place of layers=[0]
    except typer.TyperException as error:
        if not str(error):  # `regard` alone: the help is printed already
            sys.exit(error.exit_code)
        exit_with_message(usage_message(error))
    except UnicodeEncodeError as error:
        exit_with_message(
            f"the output is encoded in {sys.stdout.encoding}, which has no {error.object[error.start]!r}; set "
            "PYTHONIOENCODING=utf-8."
        )
    except OSError as error:
        # an error of standard output has no file name
        if error.filename is not None or error.errno not in {*WRITE_ERRORS, errno.EPIPE}:
            raise
        # At exit, Python writes the rest of the output. Writing it failed, so standard output becomes /dev/null.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno == errno.EPIPE:  # the reader has closed the pipe; Typer exits with 1 too
            sys.exit(1)
        exit_with_message(f"cannot write the output: {os.strerror(error.errno).lower()}.")
    except SystemExit as stop:
        if stop.code == 130:  # Typer exits with 130 after Ctrl-C, and so do some subcommands
            print("regard: stopped", file=sys.stderr)
        raise
