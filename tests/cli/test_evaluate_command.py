"""`regard evaluate`: its outputs, its pipes, its refusals."""

import json
from types import SimpleNamespace

import pytest
import sacrebleu
from cli_runner import invoke, refused

from regard.cli.text_lines import read_file_lines
from regard.translation.translator import Translator

FILES = {
    "test.de": "die Katze saß auf der Matte .\nzwei Hunde laufen über das Feld .\n",
    "system.de": "die Katze saß auf einer Matte .\nzwei Hunde laufen über das Feld .\n",
    "other.de": "Katze auf Matte .\nHunde im Feld .\n",
    "test.en": "the cat sat on the mat .\ntwo dogs run across the field .\n",
    "short.de": "die Katze\n",
}


@pytest.fixture
def files(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments, text=None):
    """Run `regard evaluate`, which succeeds."""
    result = invoke("evaluate", *arguments, text=text)
    assert result.exit_code == 0, result.exception
    return result


def test_scores_in_the_terminal(files):
    result = run("test.de", "system.de")
    bleu = sacrebleu.corpus_bleu(read_file_lines(files / "system.de"), [read_file_lines(files / "test.de")])
    assert result.stdout.splitlines()[1].rstrip() == f"BLEU     {bleu.score:.1f}"
    assert "exact    50.0   % of 2 lines" in result.stdout
    assert "  line 1         chrF" in result.stdout
    assert "\n    source" not in result.stdout


def test_a_page_and_a_json_file_with_a_second_system(files):
    options = ["--source", "test.en", "--against", "other.de", "--html", "a.html", "--json", "a.json", "--worst", "1"]
    result = run("test.de", "system.de", *options)
    assert result.stdout.endswith("\nwrote a.html\nwrote a.json\n")
    assert "difference" in result.stdout
    assert "\n    source       the cat sat on the mat ." in result.stdout
    assert "<title>system.de · regard</title>" in (files / "a.html").read_text()
    document = json.loads((files / "a.json").read_text())
    assert [score["name"] for score in document["scores"]] == ["BLEU", "chrF2", "TER"]
    assert document["sentences"][0]["other"] == "Katze auf Matte ."
    assert document["n_lines"] == len(document["sentences"]) == 2


def test_translations_from_a_pipe_and_json_on_standard_output(files):
    result = run("test.de", "-", "--json", "-", text=FILES["system.de"])
    assert json.loads(result.stdout)["exact"] == 50
    assert sorted(path.name for path in files.iterdir()) == sorted(FILES)


def test_bleu_of_lines_with_few_words_counts_characters(tmp_path):
    (tmp_path / "few").write_text("사만 이천칠\n")
    (tmp_path / "many").write_text("the cat sat on a mat\n")
    few, many = (run(tmp_path / name, tmp_path / name) for name in ("few", "many"))
    chosen = run(tmp_path / "few", tmp_path / "few", "--tokenize", "13a")
    assert "tok:char" in few.stdout
    assert few.stderr.startswith("regard: BLEU counts characters, as in training, because")
    assert "tok:13a" in many.stdout
    assert "tok:13a" in chosen.stdout
    assert many.stderr == chosen.stderr == ""


def test_tokenized_text_is_noticed_once_and_by_us(files):
    (files / "long.de").write_text(FILES["system.de"] * 60, encoding="utf-8")
    for tokenize, said in (("13a", True), ("none", False)):
        result = run("long.de", "long.de", "--tokenize", tokenize)
        assert result.stderr.count("as tokenized text does") == said
        assert "force" not in result.output
    (files / "plain.de").write_text("Die Katze saß.\nZwei Hunde laufen.\n", encoding="utf-8")
    assert run("plain.de", "plain.de", "--tokenize", "13a").stderr == ""


def test_several_references_and_settings(files):
    result = run("test.de", "other.de", "-r", "other.de", "--tokenize", "char", "--lowercase")
    assert "exact   100.0" in result.stdout
    assert "nrefs:2|case:lc|eff:no|tok:char" in result.stdout


def test_a_translator_translates_first(files, monkeypatch):
    class Fake:
        def translate(self, texts, truncate, split):
            asked.append(truncate)
            assert split is not truncate
            assert texts == read_file_lines(files / "test.en")
            return [SimpleNamespace(text=text, untranslated=False) for text in read_file_lines(files / "system.de")]

    def load(folder, device, *, int8):
        asked.append((device, int8))
        return Fake()

    asked = []
    monkeypatch.setattr(Translator, "load", load)
    result = run("test.de", "--translator", "en-de", "--source", "test.en", "--html", "a.html")
    assert result.stdout.splitlines()[:5] == run("test.de", "system.de").stdout.splitlines()[:5]
    assert "<title>en-de · regard</title>" in (files / "a.html").read_text()
    run("test.de", "--translator", "en-de", "--source", "test.en", "--truncate", "--device", "cpu", "--int8")
    assert asked == [(None, False), False, ("cpu", True), True]


def test_a_translator_translates_long_lines_as_regard_translate_does(translator_folder, tmp_path):
    source, translated = tmp_path / "source", tmp_path / "translated"
    source.write_text("no dog\n" + "the cat sat on a mat. no dog ran. " * 4 + "\n" + "no " * 40 + "\n")
    result = invoke("translate", translator_folder, "--device", "cpu", "-i", source)
    translated.write_text(result.stdout)
    assert result.exit_code == 1
    found = run(translated, "--translator", translator_folder, "--source", source, "--device", "cpu")
    assert "exact   100.0   % of 3 lines" in found.stdout
    assert "regard: line 3: not translated: a clause is too long; divide it, or " in found.stderr
    assert "line 2" not in found.stderr


ONE_SOURCE = "give the file of translations, or a translator that makes them."
UNEQUAL = "test.de has 2 lines and short.de has 1 line; line n of each must belong to the same sentence."


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["test.de"], f"got neither HYPOTHESIS nor --translator; {ONE_SOURCE}"),
        (["test.de", "system.de", "-t", "en-de"], f"got both HYPOTHESIS and --translator; {ONE_SOURCE}"),
        (
            ["test.de", "-t", "en-de"],
            "--translator translates the file --source, which is missing; name the file to translate.",
        ),
        (["test.de", "system.de", "--truncate"], "--truncate is an option of --translator; give that as well."),
        (["test.de", "system.de", "--int8"], "--int8 is an option of --translator; give that as well."),
        (["test.de", "system.de", "--device", "cpu"], "--device is an option of --translator; give that as well."),
        (["test.de", "short.de"], UNEQUAL),
        (["test.de", "system.de", "-s", "short.de"], UNEQUAL),
        (["-", "-"], "- is standard input, which can be read only once, and it is given twice; name a file."),
        (["none.de", "system.de"], "there is no file none.de; nearest: other.de, test.de, short.de."),
        (["test.de", "."], "cannot read .: is a directory; name another file."),
    ],
)
def test_files_and_options_that_do_not_fit_are_refused(files, arguments, message):
    assert refused("evaluate", *arguments) == message
    assert sorted(path.name for path in files.iterdir()) == sorted(FILES)
