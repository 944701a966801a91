"""Tests of the outputs of all verbs: none replaces an input, and no two are one file."""

from pathlib import Path

import pytest
from cli_runner import refused

from regard.cli.written_files import check_outputs

COMMANDS = {
    "explain": "explain numbers.toml --html {}",
    "evaluate": "evaluate a.txt b.txt --json {}",
    "evaluate, second system": "evaluate a.txt b.txt --against c.csv --html {}",
    "scan": "scan c.csv --out {}",
    "look, picture": "look --image picture.png --model any --png {}",
    "look, recording": "look --audio a.txt --model any --json {}",
}
REPLACED = dict(zip(COMMANDS, ["numbers.toml", "a.txt", "c.csv", "c.csv", "picture.png", "a.txt"], strict=True))


@pytest.fixture
def inputs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in REPLACED.values():
        Path(name).write_text("x\n", encoding="utf-8")
    Path("b.txt").write_text("x\n", encoding="utf-8")


@pytest.mark.usefixtures("inputs")
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("spelling", ["{}", "../{folder}/{}"])
def test_an_input_is_not_replaced(command, spelling, tmp_path):
    name = REPLACED[command]
    output = spelling.format(name, folder=tmp_path.name)
    said = refused(*COMMANDS[command].format(output).split())
    assert said == f"cannot write {output}: it is an input of this command; name another file."
    assert Path(name).read_text(encoding="utf-8") == "x\n"


@pytest.mark.usefixtures("inputs")
@pytest.mark.parametrize("second", ["new", "./new", "numbers.toml"])
def test_two_outputs_are_two_files(second):
    first = "numbers.toml" if second == "numbers.toml" else "new"
    said = refused("explain", "--html", first, "--json", second)
    assert said == f"cannot write {Path(second)}: two options name it; name another file for one of them."


def test_a_device_is_written_by_any_number_of_options():
    check_outputs([Path("/dev/null"), Path("/dev/null")])
