"""`regard export`: what it prints, what it refuses."""

import pytest
from cli_runner import output, refused

LINES = ["the cat sat", "a dog ran", "", "I am a student"]


@pytest.mark.parametrize(
    ("to", "now"),
    [
        ("ctranslate2", "ctranslate2.Translator({out!r})"),
        ("huggingface", "AutoModelForSeq2SeqLM.from_pretrained({out!r}), AutoTokenizer.from_pretrained({out!r})"),
    ],
)  # fmt: skip
def test_the_difference_is_printed(translator_folder, tmp_path, to, now):
    lines, out = tmp_path / "lines.en", tmp_path / "out"
    lines.write_text("\n".join(LINES), encoding="utf-8")
    printed = output("export", translator_folder, "--to", to, "--out", out, "--lines", lines).splitlines()
    assert printed[0].startswith("checked same translation of 3 of 3 lines; log-probabilities at most ")
    assert printed[0].endswith(" nats a token apart")
    assert printed[1:] == [f"wrote   {out}", "", "now     " + now.format(out=str(out))]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lines.en", "out"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--to", "onxx"], "cannot export to 'onxx'; nearest: onnx; there are huggingface, ctranslate2, onnx."),
        (["--to", "onnx", "--lines", "none.en"], "there is no file none.en; no file is in that folder."),
    ],
)
def test_an_unknown_format_and_a_missing_file_are_refused(translator_folder, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    assert refused("export", translator_folder, *options, "--out", "out") == message
    assert list(tmp_path.iterdir()) == []
