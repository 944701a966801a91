"""Tests of the command `regard`: its version, its help, its exit status and its message when it fails."""

import inspect
import io
import os
import re
import shlex
import signal
import subprocess
import sys
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import pytest
from cli_runner import output

from regard.cli.main import VERBS, limit_thread_spinning
from regard.cli.main import run as run_verb
from regard.cli.option_names import with_option_names
from regard.kernels.library import description

COMMAND = [sys.executable, "-m", "regard"]
NAMES = [verb.__name__.replace("_", "-") for group in VERBS.values() for verb in group]


@pytest.fixture
def run_main(monkeypatch, capsys):
    """Return a function: run_main("look", "") runs the command and returns its exit status, output and errors."""

    def run(*arguments):
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setattr(sys, "argv", ["regard", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            run_verb()
        printed = capsys.readouterr()
        return stop.value.code, printed.out, printed.err

    return run


def test_the_version_names_the_kernels_too():
    assert output("--version") == f"regard {version('regard')}\n{description()}\n"


@pytest.mark.parametrize("verb", [*NAMES, ""])
def test_the_types_in_help_are_plain(verb):
    """A flag has no type, and there is neither a `<list[str]>` nor an `<int range>`."""
    arguments = [verb, "--help"] if verb else ["--help"]
    types = set(re.findall(r"[│ ](<[^ >│][^>│]*>) ", output(*arguments, columns=200)))
    assert types <= {"<str>", "<path>", "<int>", "<float>"}
    assert re.search("--help +-h +Show this message", output(*arguments, columns=200))


@pytest.mark.parametrize("verb", [verb for group in VERBS.values() for verb in group], ids=lambda verb: verb.__name__)
def test_every_verb_has_examples_which_a_terminal_of_80_columns_does_not_wrap(verb):
    """A wrapped line cannot be pasted into a shell."""
    lines = {line.strip() for line in output(verb.__name__.replace("_", "-"), "--help").splitlines()}
    paragraphs = inspect.cleandoc(verb.__doc__).split("\n\n")
    examples = [line for one in paragraphs if one.startswith("\b") for line in one.splitlines()[1:] if "[" not in line]
    assert any(line.startswith("  regard ") for line in examples)
    assert [line for line in examples if line.strip() not in lines] == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("lok", "no such command 'lok'. Did you mean 'look'? See regard --help."),
        (
            "look a --hed L3H1",
            "no such option: --hed (Possible options: --head, --heads, --help); see regard look --help.",
        ),
        ("train a", "missing argument 'TARGET'; see regard train --help."),
        (
            "look The snake is",
            "got unexpected extra argument(s) (snake is): a text of several words needs quotes around it; see regard "
            "look --help.",
        ),
        ("learn 1 2", "got unexpected extra argument(s) (2); see regard learn --help."),
        (
            f"translate a {__file__}",
            f"got unexpected extra argument(s) ({__file__}): use -i {__file__}; see regard translate --help.",
        ),
        (
            "serve a --port 70000",
            "invalid value for '--port': Input should be less than or equal to 65535; see regard serve --help.",
        ),
    ],
)
def test_arguments_that_do_not_exist_are_refused_in_a_line(arguments, said, run_main):
    assert run_main(*arguments.split()) == (2, "", f"regard: {said}\n")


def test_without_a_verb_the_help_is_printed(run_main):
    status, printed, error = run_main()
    assert (status, error) == (2, "")
    assert printed.strip() == run_main("--help")[1].strip()


@pytest.mark.parametrize("columns", [60, 100, 200])
def test_a_paragraph_of_help_fills_the_terminal(columns):
    """Each line but the last has no room for the first word of the next line."""
    text = output("score", "--help", columns=columns)
    paragraph = text[text.index("A score is") :].partition("Examples")[0].rstrip()
    lines = [line.strip() for line in paragraph.splitlines()]
    assert lines[-1].endswith("before you delete them.")
    for line, following in pairwise(lines):
        assert len(line) + 1 + len(following.split()[0]) > columns - 2


@pytest.mark.parametrize(
    ("variables", "count"), [({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, None)]
)
def test_waiting_threads_sleep_soon_unless_the_user_chose_otherwise(variables, count, monkeypatch):
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.setenv(name, "")  # so that it is as before after the test
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    limit_thread_spinning()
    assert os.environ.get("GOMP_SPINCOUNT") == count


def test_threads_are_told_to_sleep_before_torch_is_loaded():
    program = (
        "import os, sys\nfrom regard.cli.main import run\nassert 'torch' not in sys.modules\n"
        "sys.argv = ['regard', '--version']\ntry:\n    run()\nfinally:\n    print(os.environ['GOMP_SPINCOUNT'])"
    )
    chosen = "GOMP_SPINCOUNT", "OMP_WAIT_POLICY"
    environment = {name: value for name, value in os.environ.items() if name not in chosen}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.stdout.splitlines()[-1] == "1000"


def test_bad_input_is_one_line_and_status_2_and_leaves_no_file(run_main, tmp_path):
    assert run_main("look", "") == (2, "", "regard: the text is empty; give at least one word to look at.\n")
    numbers = "x = [[1, 0, 1]]\nW_q = [[1], [0]]\nW_k = [[1], [0], [1]]\nW_v = [[1], [0], [1]]\n"
    (tmp_path / "broken.toml").write_text(numbers)
    status, printed, error = run_main("explain", tmp_path / "broken.toml", "--json", tmp_path / "all.json")
    assert (status, printed) == (2, "")
    assert error == (
        "regard: W_q is 2 x 1, but x is 1 x 3: W_q must have 3 rows, one for each number of a token's embedding "
        "(3 x 1 would fit).\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["broken.toml"]


@pytest.mark.usefixtures("minilm_once")
def test_a_message_names_the_option_and_not_the_argument_of_python(run_main):
    _, _, errors = run_main("look", "snake " * 600)
    assert errors == (
        "regard: the text is 602 tokens long and the model reads at most 512; shorten it, or read only its beginning "
        "with --truncate.\n"
    )
    assert with_option_names('or join them with trace.words("a\'b").') == 'or join them with --span "a\'b".'
    assert with_option_names("give it with target=…, or let it write with new_tokens=…; new_tokens=0: give more.") == (
        "give it with --target, or let it write with --new-tokens …; --new-tokens 0: give more."
    )


def test_a_reader_that_stops_early_is_no_error():
    """A pipe whose other end is closed before anything is written."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*COMMAND, "explain", "--list"], stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
@pytest.mark.parametrize("arguments", [["explain"], ["--version"]])
def test_an_output_that_cannot_be_written_is_told_in_a_line(arguments, run_main, monkeypatch):
    """The whole message comes at once: while the verb prints, or when the command ends."""
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        status, _, error = run_main(*arguments)
    assert (status, error) == (2, "regard: cannot write the output: no space left on device.\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
@pytest.mark.usefixtures("minilm_once")
@pytest.mark.parametrize(
    "command",
    [
        "look snake --json a.json",
        "compare MiniLM MiniLM snake --json a.json",
        "explain --json a.json",
        "scan text --out a.csv",
        "evaluate text text --json a.json",
    ],
)
def test_files_are_written_even_if_nothing_can_be_printed(command, run_main, monkeypatch, tmp_path):
    """As when the output is read by head, which stops early."""
    monkeypatch.chdir(tmp_path)
    Path("text").write_text("The snake is dangerous.\n")
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert run_main(*command.split())[0] == 2
    assert Path(command.split()[-1]).stat().st_size > 0


def test_an_output_without_the_letters_is_told_in_a_line(run_main, monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="latin-1"))
    status, _, error = run_main("explain")
    message = "the output is encoded in latin-1, which has no '─'; set PYTHONIOENCODING=utf-8."
    assert (status, error) == (2, f"regard: {message}\n")


@pytest.mark.parametrize("command", ["explain --json", "look hi --html", "learn --language"])
def test_an_option_without_its_value_names_the_help_of_the_verb(command, run_main):
    verb, option = command.split()[0], command.split()[-1]
    message = f"option '{option}' requires an argument; see regard {verb} --help."
    assert run_main(*command.split()) == (2, "", f"regard: {message}\n")


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "cp949"])
def test_the_advice_for_an_output_without_the_letters_works(encoding):
    environment = os.environ | {"PYTHONIOENCODING": encoding, "COLUMNS": "80"}
    advised = environment | {"PYTHONIOENCODING": "utf-8"}
    refused, shown = (
        subprocess.run([*COMMAND, "explain"], capture_output=True, env=given) for given in (environment, advised)
    )
    assert f"encoded in {encoding}, which".encode() in refused.stderr
    assert b"set PYTHONIOENCODING=utf-8." in refused.stderr
    assert (shown.returncode, shown.stderr) == (0, b"")
    assert "softmax" in shown.stdout.decode()


def importing_from(folder):
    """The environment of a process that imports modules from a folder first."""
    return os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}


def run_command(*arguments, **options):
    """Run the installed command in a process of its own; return its status, output and errors."""
    done = subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, **options)
    return done.returncode, done.stdout, done.stderr


def test_ctrl_c_stops_cleanly_while_the_command_is_still_loading(tmp_path):
    """The signal comes while the command line imports its first package."""
    (tmp_path / "typer.py").write_text(f"import os, time\nos.kill(os.getpid(), {signal.SIGINT:d})\ntime.sleep(60)\n")
    assert run_command("look", "a", env=importing_from(tmp_path)) == (130, "", "regard: stopped\n")


def test_ctrl_c_that_the_shell_ignores_for_a_background_job_stays_ignored(tmp_path):
    (tmp_path / "typer.py").write_text(f"import os, sys\nos.kill(os.getpid(), {signal.SIGINT:d})\nsys.exit(7)\n")
    command = " ".join(map(shlex.quote, [*COMMAND, "explain"]))
    environment = importing_from(tmp_path)
    done = subprocess.run(f"trap '' INT; {command}", shell=True, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (7, "")


def test_ctrl_c_during_an_import_leaves_no_temporary_file(tmp_path):
    """A package may be imported while a picture or an export is being written."""
    (tmp_path / "slow.py").write_text(f"import os, time\nos.kill(os.getpid(), {signal.SIGINT:d})\ntime.sleep(60)\n")
    (tmp_path / "written").mkdir()
    program = (
        "import signal, sys, tempfile\nfrom pathlib import Path\nfrom regard.__main__ import interrupt\n"
        "from regard.atomic_files import atomic_replace\nsignal.signal(signal.SIGINT, interrupt)\n"
        "with atomic_replace(Path('written/a.png')), tempfile.TemporaryDirectory(dir='written'):\n    import slow"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=importing_from(tmp_path), cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (130, "regard: stopped\n")
    assert list((tmp_path / "written").iterdir()) == []


@pytest.mark.parametrize("arguments", [["look", "-"], ["translate", "."], ["translate", ".", "--prefix-file", "-"]])
def test_a_closed_standard_input_is_told_in_a_line(arguments, run_main, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    status, printed, error = run_main(*arguments)
    assert (status, printed) == (2, "")
    assert error == "regard: standard input is closed; give a text by a pipe, or name a file.\n"


def test_a_closed_standard_output_is_told_in_a_line():
    command = " ".join(map(shlex.quote, [*COMMAND, "explain"]))
    done = subprocess.run(f"{command} >&-", shell=True, capture_output=True, text=True)
    message = "regard: standard output is closed; send it to a file, or to /dev/null.\n"
    assert (done.returncode, done.stderr) == (2, message)


@pytest.mark.parametrize("name", ["a\x1b[31mb\n.toml", "a\u202eb\u2028.toml", os.fsdecode(b"a\xff.toml")])
def test_characters_that_a_terminal_would_execute_are_shown_by_their_codes(name, run_main, tmp_path):
    shown = {"\x1b": "‹1B›", "\n": "⏎", "\u202e": "‹202E›", "\u2028": "‹2028›", "\udcff": "‹DCFF›"}
    expected = "".join(shown.get(letter, letter) for letter in name)
    status, _, error = run_main("explain", tmp_path / name)
    assert status == 2
    assert error.splitlines() == [
        f"regard: there is no file {tmp_path}/{expected}; no file is in that folder; name a TOML file of numbers, take "
        "a built-in example (--list names them), or give a text with --text."
    ]
    _, printed, _ = run_main("explain", "--json", tmp_path / name)
    assert printed.splitlines()[-1] == f"wrote {tmp_path}/{expected}"
    (tmp_path / name).unlink()


@pytest.mark.parametrize("arguments", [["lo\x1b[31mok"], ["look", "a", "\x1b[31m"], ["look", "--no\x1bne"]])
def test_unknown_arguments_are_shown_without_their_control_characters(arguments, run_main):
    status, _, error = run_main(*arguments)
    assert status == 2
    assert r"\x1b" in error
    assert "\x1b" not in error


def test_help_groups_the_verbs(run_main):
    _, text, _ = run_main("--help")
    groups = [line.strip("╭─╮ ") for line in text.splitlines() if line.startswith("╭")]
    assert groups == ["Options", *VERBS]
    assert all(f"│ {name} " in text for name in NAMES)


def test_ctrl_c_stops_cleanly(run_main, monkeypatch, tmp_path):
    """The signal comes while the verb reads its text."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("regard.cli.text_lines.read_stdin", lambda: signal.raise_signal(signal.SIGINT))
    status, _, error = run_main("look", "-")
    assert (status, error.strip()) == (130, "regard: stopped")
    assert list(tmp_path.iterdir()) == []
