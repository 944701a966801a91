"""Tests of `regard scan`: its table, map and files, resuming after a stop, refusals."""

import csv
import itertools

import pytest
from cli_runner import invoke, output, refused
from random_models import t5

from regard.cli import text_lines
from regard.tracing.scan import Scan

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


def read_then(error, n_lines):
    """Return a method `Scan.read` that raises an error after some lines."""
    read = Scan.read

    def stopped(scan, loaded, lines):
        yield from itertools.islice(read(scan, loaded, lines), n_lines)
        raise error

    return stopped


def test_a_stopped_scan_goes_on(tmp_path, texts, monkeypatch):
    whole = output("scan", texts)
    out = tmp_path / "heads.csv"
    with monkeypatch.context() as patched:
        patched.setattr(Scan, "read", read_then(KeyboardInterrupt(), 1))
        stopped = invoke("scan", texts, "--out", out)
    assert stopped.exit_code == 130
    assert "regard: 1 line saved; the same command continues" in stopped.stderr
    resumed = invoke("scan", texts, "--out", out)
    assert "regard: continuing after line 1\n" in resumed.stderr
    assert resumed.stdout.startswith(whole)
    assert not (tmp_path / "heads.csv.progress").exists()


def test_lines_before_a_damaged_line_are_saved(tmp_path, texts):
    good, out = texts.read_bytes(), tmp_path / "heads.csv"
    texts.write_bytes(good + b"\xff\n")
    assert "regard: 4 lines saved; the same command continues" in invoke("scan", texts, "--out", out).stderr
    texts.write_bytes(good + b"A cat.\n")
    assert "regard: continuing after line 4\n" in invoke("scan", texts, "--out", out).stderr


def test_the_first_lines_are_scanned_before_the_last_are_read(tmp_path, texts, monkeypatch):
    monkeypatch.setattr(text_lines, "FIRST_BYTES", 8)
    monkeypatch.setattr(text_lines, "MOST_BYTES", 8)
    with texts.open("ab") as file:
        file.write(b"A dog runs.\n" * 100)
    places, add = [], Scan.add
    monkeypatch.setattr(
        Scan, "add", lambda scan, loaded, text: (places.append(opened[0].tell()), add(scan, loaded, text))
    )
    opened, open_text = [], text_lines.open_text
    monkeypatch.setattr(text_lines, "open_text", lambda *args: opened.append(open_text(*args)) or opened[0])
    invoke("scan", texts)
    assert len(places) == 103
    assert places[0] < 80 < places[-1]


def test_another_kind_of_table_a_translator_and_an_encoder_decoder_are_refused(
    texts, translator_folder, tmp_path, minilm
):
    assert refused("scan", texts, "--out", "heads.txt") == (
        "cannot tell what kind of table heads.txt is; its name must end in .csv or .parquet."
    )
    assert refused("scan", texts, "--model", translator_folder) == (
        f"{translator_folder} is a translator, which reads two texts; scan takes a model that reads one text."
    )
    t5().save_pretrained(tmp_path / "t5")
    minilm.tokenizer.save_pretrained(tmp_path / "t5")
    assert refused("scan", texts, "--model", tmp_path / "t5") == (
        "t5 is an encoder-decoder, which reads two texts; scan takes a model that reads one text."
    )
