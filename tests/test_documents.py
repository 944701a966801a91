"""The README and CONTRIBUTING show what happens: their code blocks run here."""

import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(document: str, *languages: str) -> list[str]:
    found = BLOCK.findall((ROOT / document).read_text())
    return [code for language, code in found if not languages or language in languages]


def run(command: str, folder: Path) -> str:
    """Run a command line in 80 columns without colour."""
    words = shlex.split(command)
    words = [sys.executable, "-m", "regard", *words[1:]] if words[0] == "regard" else words
    settings = {"COLUMNS": "80", "NO_COLOR": "1", "PYTHONPATH": str(ROOT / "src"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(words, cwd=folder, env=os.environ | settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check_sessions(document: str) -> None:
    """Run the Python sessions of a document in order, and compare what they print."""
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    scope: dict[str, object] = {}
    sessions = blocks(document, "pycon")
    assert sessions
    for session in sessions:
        example = parser.get_doctest(session, scope, document, document, 0)
        runner.run(example, clear_globs=False)
        scope.update(example.globs)
    assert runner.summarize(verbose=False).failed == 0


def check_commands(block: str, folder: Path) -> None:
    """Run the commands of a console block, and compare what they print; … stands for lines left out."""
    for part in block.split("$ ")[1:]:
        command, _, expected = part.partition("\n")
        printed = [line.rstrip() for line in run(command, folder).strip().splitlines()]
        shown = [line.rstrip() for line in expected.strip().splitlines()]
        if "…" in shown:  # the middle is left out
            cut = shown.index("…")
            tail = shown[cut + 1 :]
            assert printed[:cut] == shown[:cut]
            assert printed[len(printed) - len(tail) :] == tail
        else:
            assert printed == shown


def test_every_block_is_of_a_language_that_is_run():
    for document in ("README.md", "CONTRIBUTING.md"):
        languages = {language for language, _ in BLOCK.findall((ROOT / document).read_text())}
        assert languages <= {"bash", "console", "pycon", "python"}


def test_python_sessions_of_the_readme_print_what_they_show():
    check_sessions("README.md")


def test_python_blocks_run_one_after_the_other():
    for document in ("README.md", "CONTRIBUTING.md"):
        scope: dict[str, object] = {"__name__": "__document__"}
        for code in blocks(document, "python"):
            exec(compile(code, document, "exec", dont_inherit=True), scope)


@pytest.mark.parametrize("block", blocks("README.md", "console"))
def test_commands_of_the_readme_print_what_they_show(block, tmp_path):
    check_commands(block, tmp_path)


def test_make_knows_the_commands_that_the_documents_name():
    lines = "".join(code for document in ("README.md", "CONTRIBUTING.md") for code in blocks(document, "bash"))
    words = {word for line in lines.splitlines() if line.startswith("make ") for word in shlex.split(line)[1:]}
    assert words
    subprocess.run(["make", *sorted(words), "--dry-run"], cwd=ROOT, check=True, capture_output=True)


def test_the_korean_readme_has_the_same_code():
    assert blocks("README.ko.md") == blocks("README.md")
    in_prose = [
        {*re.findall("`([^`]+)`", BLOCK.sub("", (ROOT / f"README{language}.md").read_text()))}
        for language in ("", ".ko")
    ]
    assert in_prose[0] == in_prose[1]


def test_pictures_and_files_that_the_documents_name_exist():
    for document in ("README.md", "README.ko.md", "CONTRIBUTING.md"):
        for target in re.findall(r"\]\((?!https?:|#)([^)]+)\)", (ROOT / document).read_text()):
            path, _, section = target.partition("#")
            assert (ROOT / path).exists(), f"{document} names {path}"
            headings = re.findall(r"^#+ (.+)", (ROOT / path).read_text(), re.MULTILINE) if section else [""]
            assert section in [heading.lower().replace(" ", "-") for heading in headings], f"{document} names {target}"
