"""Tests of the outputs of all verbs: none replaces an input, and no two are one file."""

from pathlib import Path

import pytest
from cli_runner import refused

from regard.cli.written_files import checked_outputs

REPLACED = {
    "explain numbers.toml --html {}": "numbers.toml",
    "explain --text text --model folder --html {}": "folder/config.json",
    "evaluate a.txt b.txt --json {}": "a.txt",
    "evaluate a.txt b.txt --against c.csv --html {}": "c.csv",
    "evaluate a.txt b.txt --comet c.csv --json {}": "c.csv",
    "evaluate a.txt --translator folder --source b.txt --json {}": "folder/config.json",
    "scan c.csv --out {}": "c.csv",
    "look --image picture.png --model any --png {}": "picture.png",
    "look --audio a.txt --model any --json {}": "a.txt",
    "look text --model folder --json {}": "folder/config.json",
    "look text --model folder --html {}": "folder/sub/model.bin",
    "compare folder any text --json {}": "folder/config.json",
    "compare any folder text --json {}": "folder/config.json",
}
"""Commands that would write to {}, and an input of each."""


@pytest.fixture
def inputs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("folder/sub").mkdir(parents=True)
    for name in REPLACED.values():
        Path(name).write_text("x\n", encoding="utf-8")
    Path("b.txt").write_text("x\n", encoding="utf-8")


@pytest.mark.usefixtures("inputs")
@pytest.mark.parametrize(("command", "name"), REPLACED.items())
@pytest.mark.parametrize("spelling", ["{}", "../{folder}/{}"])
def test_an_input_is_not_replaced(command, name, spelling, tmp_path):
    output = spelling.format(name, folder=tmp_path.name)
    said = refused(*command.format(output).split())
    assert said == f"cannot write {output}: it is an input of this command; name another file."
    assert Path(name).read_text(encoding="utf-8") == "x\n"


@pytest.mark.usefixtures("inputs")
def test_a_file_that_a_models_folder_links_to_is_not_replaced():
    Path("folder/model.safetensors").symlink_to(Path("a.txt").resolve())
    assert refused("look", "text", "--model", "folder", "--json", "a.txt") == (
        "cannot write a.txt: it is an input of this command; name another file."
    )


@pytest.mark.usefixtures("inputs")
def test_the_progress_of_a_scan_does_not_replace_its_input():
    Path("a.csv.progress").write_text("x\n", encoding="utf-8")
    assert refused("scan", "a.csv.progress", "--out", "a.csv") == (
        "cannot write a.csv.progress: it is an input of this command; name another file."
    )


@pytest.mark.usefixtures("inputs")
def test_a_page_and_a_new_file_may_be_written_beside_a_model():
    Path("folder/page.html").touch()
    inputs = ["folder", None, "a/name/that/is/no/folder"]
    outputs = [Path("folder/page.html"), Path("folder/new.json")]
    assert checked_outputs(inputs, html=outputs[0], json=outputs[1]) == outputs


@pytest.mark.usefixtures("inputs")
@pytest.mark.parametrize("second", ["new", "./new", "numbers.toml"])
def test_two_outputs_are_two_files(second):
    first = "numbers.toml" if second == "numbers.toml" else "new"
    said = refused("explain", "--html", first, "--json", second)
    assert said == f"cannot write {Path(second)}: two options name it; name another file for one of them."


def test_a_device_is_written_by_any_number_of_options():
    checked_outputs(html=Path("/dev/null"), table=Path("/dev/null"))
