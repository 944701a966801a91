"""`regard sample`: files that a training takes, and refusals in one line."""

import subprocess
import sys


def regard(*arguments):
    return subprocess.run([sys.executable, "-m", "regard.cli.main", *arguments], capture_output=True, text=True)


def test_it_writes_what_it_says(tmp_path):
    arguments = (
        "sample",
        "--source",
        "en",
        "--target",
        "ko",
        "--pairs",
        "20",
        "--dev",
        "3",
        "--test",
        "4",
        "--seed",
        "7",
    )
    run = regard(*arguments, "--out", str(tmp_path / "one"))
    assert (run.returncode, run.stderr) == (0, "")
    names = ["train.en", "train.ko", "dev.en", "dev.ko", "test.en", "test.ko"]
    assert run.stdout.split() == [str(tmp_path / "one" / name) for name in names]
    counts = [len((tmp_path / "one" / name).read_text().splitlines()) for name in names]
    assert counts == [20, 20, 3, 3, 4, 4]
    regard(*arguments, "--out", str(tmp_path / "two"))
    assert all((tmp_path / "one" / n).read_bytes() == (tmp_path / "two" / n).read_bytes() for n in names)


def test_it_refuses_in_one_line(tmp_path):
    run = regard("sample", "-s", "en", "-t", "xx", "-o", str(tmp_path))
    assert run.returncode == 2
    assert run.stderr.startswith("regard: num2words has no language 'xx'; it has am, ar, ")
    assert run.stderr.count("\n") == 1
    run = regard("sample", "-s", "en", "-t", "ko", "-o", str(tmp_path), "--pairs", "1000", "--below", "1000")
    assert run.stderr == "regard: 2,000 pairs were asked for, and there are 1,000 numbers below 1,000; ask for fewer.\n"


def test_files_that_are_there_stay_unless_forced(tmp_path):
    arguments = ("sample", "-s", "en", "-t", "fr", "-n", "9", "--dev", "1", "--test", "1", "-o", str(tmp_path))
    assert regard(*arguments, "--seed", "1").returncode == 0
    first = (tmp_path / "train.en").read_text()
    again = regard(*arguments, "--seed", "2")
    assert (again.returncode, again.stderr) == (
        2,
        f"regard: {tmp_path}/train.en is there already; name another folder with --out, or replace it with --force.\n",
    )
    assert (tmp_path / "train.en").read_text() == first
    assert regard(*arguments, "--seed", "2", "--force").returncode == 0
    assert (tmp_path / "train.en").read_text() != first


def test_help_has_an_example():
    run = regard("sample", "--help")
    assert "regard sample --source en --target ko --pairs 20000 --seed 7 --out numbers" in run.stdout
