"""Tests of `regard scan`: its table, map and files, resuming after a stop, refusals."""

import csv

import pytest
from cli_runner import invoke, output, refused

from regard.cli import scan as scan_module

pytestmark = pytest.mark.usefixtures("minilm_once")


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("The snake is very dangerous because it has a venom.\n\nA dog runs.\nIt is it.\n")
    return path


def test_a_file_of_texts(tmp_path, texts):
    paths = [tmp_path / name for name in ("heads.csv", "heads.png")]
    ran = invoke("scan", texts, "--out", paths[0], "--png", paths[1])
    text = ran.stdout
    assert ran.exit_code == 0
    assert "regard: 1 blank line left out.\n" in ran.stderr
    assert text.startswith("MiniLM · 3 texts · 25 tokens\n")
    assert "\n  the previous token" in text
    assert " L0H2 1.00 " in text
    assert text.split("\n  L0 ")[1].split("\n")[0].split("=17")[1].startswith("  P100 N14 ")
    assert text.endswith("".join(f"wrote {path}\n" for path in paths))
    rows = list(csv.DictReader(paths[0].read_text().splitlines()))
    assert len(rows) == 72
    assert rows[2]["head"] == "L0H2"
    assert float(rows[2]["previous"]) > 0.99
    assert paths[1].read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["heads.csv", "heads.png", "texts.txt"]


def test_parquet_has_the_same_table(tmp_path, texts):
    parquet = pytest.importorskip("pyarrow.parquet")
    output("scan", texts, "--out", tmp_path / "heads.parquet")
    output("scan", texts, "--out", tmp_path / "heads.csv")
    table = parquet.read_table(tmp_path / "heads.parquet").to_pydict()
    rows = list(csv.DictReader((tmp_path / "heads.csv").read_text().splitlines()))
    assert table["head"] == [row["head"] for row in rows]
    assert table["entropy"] == [float(row["entropy"]) for row in rows]


def test_a_stopped_scan_goes_on(tmp_path, texts, monkeypatch):
    whole = output("scan", texts)

    def stop(lines, total):
        yield lines[0]
        raise KeyboardInterrupt

    out = tmp_path / "heads.csv"
    with monkeypatch.context() as patched:
        patched.setattr(scan_module, "with_progress_bar", stop)
        stopped = invoke("scan", texts, "--out", out)
    assert stopped.exit_code == 130
    assert "regard: 1 lines are saved; the same command continues" in stopped.stderr
    resumed = invoke("scan", texts, "--out", out)
    assert "regard: continuing after line 1 of 4" in resumed.stderr
    assert resumed.stdout.startswith(whole)
    assert not (tmp_path / "heads.csv.progress").exists()


def test_another_kind_of_table_and_a_translator_are_refused(texts, translator_folder):
    assert refused("scan", texts, "--out", "heads.txt") == (
        "cannot tell what kind of table heads.txt is; its name must end in .csv or .parquet."
    )
    assert refused("scan", texts, "--model", translator_folder) == (
        f"{translator_folder} is a translator, which reads two texts; scan takes a model that reads one text."
    )
