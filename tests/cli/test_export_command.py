"""`regard export`: what it prints, what it refuses."""

import pytest
import torch
import typer
from typer.testing import CliRunner

from regard import InputError
from regard.cli.export import export
from regard.text.vocabulary import Vocabulary
from regard.transformer.config import TransformerConfig
from regard.transformer.model import Transformer
from regard.translation.translator_folder import write_translator

app = typer.Typer()
app.command()(export)

LINES = ["the cat sat", "a dog runs", "", "two men"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    vocabulary = Vocabulary.train(LINES * 5, 30)
    torch.manual_seed(0)
    size = len(vocabulary)
    config = TransformerConfig.preset("tiny", n_source_tokens=size, n_target_tokens=size, max_tokens=23)
    place = tmp_path_factory.mktemp("translator") / "en-en"
    return write_translator(place, Transformer(config).eval(), vocabulary, vocabulary)


def run(*arguments):
    return CliRunner(env={"NO_COLOR": "1", "COLUMNS": "80"}).invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize(
    ("to", "now"),
    [
        ("ctranslate2", "ctranslate2.Translator({out!r}, compute_type=\"int8\")"),
        ("huggingface", "AutoModelForSeq2SeqLM.from_pretrained({out!r}), AutoTokenizer.from_pretrained({out!r})"),
    ],
)  # fmt: skip
def test_the_difference_is_printed(folder, tmp_path, to, now):
    lines, out = tmp_path / "lines.en", tmp_path / "out"
    lines.write_text("\n".join(LINES), encoding="utf-8")
    result = run(folder, "--to", to, "--out", out, "--lines", lines)
    assert result.exit_code == 0, result.exception
    said = result.stdout.splitlines()
    assert said[0].startswith("checked same translation of 3 of 3 lines; log-probabilities at most ")
    assert said[0].endswith(" nats a token apart")
    assert said[1:] == [f"wrote   {out}", "", "now     " + now.format(out=str(out))]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lines.en", "out"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--to", "onxx"], "cannot export to 'onxx'; nearest: onnx; there are huggingface, ctranslate2, onnx."),
        (["--to", "onnx", "--lines", "none.en"], "cannot read none.en: no such file or directory; name another file."),
    ],
)
def test_refusals(folder, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    result = run(folder, *options, "--out", "out")
    assert isinstance(result.exception, InputError)
    assert str(result.exception) == message
    assert list(tmp_path.iterdir()) == []


def test_help_has_an_example():
    assert "regard export en-ko --to ctranslate2 --out en-ko-ct2" in run("--help").stdout
