"""Tests with damaged files of every kind: each is read as a usable object, or refused with a message of one line.

The kinds of files are the table in kinds.py. `pytest tests/hostile --cases 5000` tests 5,000 damaged files of each;
with `--seed 1`, others.
"""

import random

import pytest
from hostile.kinds import KINDS
from hostile.mutations import mutated
from hostile.sandbox import first_failure


@pytest.mark.parametrize("name", KINDS)
def test_damaged_files_are_read_or_refused_in_one_line(name, tmp_path, cases, monkeypatch, request):
    kind, folder = KINDS[name], tmp_path / "folder"
    monkeypatch.setattr("os.fsync", lambda file: None)
    folder.mkdir()
    kind.write(folder)
    original = contents(folder)

    seed = request.config.getoption("--seed")

    def run(number):
        chance = random.Random(f"{seed} {number}" if seed else number)
        damaged = mutated({name: content for name, content in original.items() if kind.damaged(name)}, chance)
        restore(folder, original | damaged)
        if chance.random() < 0.5:
            kind.seal(folder)
        kind.use(folder)

    run_undamaged(kind, folder)
    assert first_failure(cases // 10 if kind.is_slow else cases, run) == ""


def run_undamaged(kind, folder):
    """Use the files as they were written: this must not fail, and imports in this process what the cases need."""
    kind.use(folder)


def contents(folder):
    """Return the content of each file in a folder, by its path in the folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def restore(folder, files):
    """Write the given contents to the files of a folder, by path; a file whose content is None is removed."""
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        if files.get(str(path.relative_to(folder))) is None:
            path.unlink()
    for name, content in files.items():
        if content is not None:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
