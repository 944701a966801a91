"""Tests of remarks on standard error: texts that a model hardly knows, letters without a font; for every verb."""

from dataclasses import replace

import pytest
from cli_runner import invoke

from regard.tracing.tokens.places import Frame
from regard.tracing.tokens.readable_tokens import Token
from regard.views.picture.fonts import BASE, Fonts

KOREAN = "뱀은 독이 있어서 위험하다"
HARDLY_KNOWN = (
    "the others are unknown words, single jamo or bytes, so their attention says little about this text: choose a "
    "model of its language."
)


@pytest.fixture
def without_letters(monkeypatch):
    """Pretend that no font on this machine has the letters of साँप."""
    monkeypatch.setattr(
        "regard.views.picture.fonts.fonts_for", lambda text: Fonts((BASE,), frozenset(set("साँप") & set(text)))
    )


@pytest.mark.usefixtures("minilm_once")
@pytest.mark.parametrize("verb", [["look"], ["compare", "MiniLM", "MiniLM"]])
def test_a_text_that_is_the_name_of_a_file_is_told(verb, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two words.txt").write_text("The snake is dangerous.")
    assert invoke(*verb, "two words.txt").stderr == (
        "regard: the text is two words.txt, which is the name of a file; to read the file instead, give - < "
        "'two words.txt'\n"
    )
    assert invoke(*verb, "-", text="two words.txt").stderr == ""


@pytest.mark.usefixtures("minilm_once")
@pytest.mark.parametrize("verb", ["look", "compare", "scan"])
def test_a_text_that_the_model_hardly_knows_is_told_once(verb, tmp_path):
    (tmp_path / "texts.txt").write_text(f"{KOREAN}\n", encoding="utf-8")
    arguments = {"look": [KOREAN], "compare": ["MiniLM", "MiniLM", KOREAN], "scan": [tmp_path / "texts.txt"]}[verb]
    assert invoke(verb, *arguments).stderr.splitlines() == [
        f"regard: MiniLM knows 0 of these 13 tokens; {HARDLY_KNOWN}"
    ]


@pytest.mark.usefixtures("minilm_once")
def test_a_scan_counts_the_tokens_of_all_its_texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text(f"The snake has a venom.\n{KOREAN}\n", encoding="utf-8")
    assert invoke("scan", path).stderr == f"regard: MiniLM knows 6 of these 19 tokens; {HARDLY_KNOWN}\n"
    path.write_text(f"The snake has a venom.\n뱀\n{'A dog runs. ' * 9}\n", encoding="utf-8")
    assert invoke("scan", path).stderr == ""


@pytest.mark.usefixtures("minilm_once", "without_letters")
@pytest.mark.parametrize("verb", ["look", "compare"])
def test_letters_without_a_font_are_told_where_a_picture_is_written(verb, tmp_path):
    arguments = ["MiniLM", "MiniLM"] if verb == "compare" else []
    text = "a snake is साँप here, and a dog is a dog."
    told = invoke(verb, *arguments, text, "--png", tmp_path / "a.png").stderr
    assert told.startswith("regard: □ stands for letters that no installed font has (U+092A, U+0938, U+093E); ")
    assert invoke(verb, *arguments, text).stderr == ""


def test_the_silence_after_a_recording_is_told_and_shown_on_demand(handmade, monkeypatch, tmp_path):
    frames = [Frame(n / 2, (n + 1) / 2, recorded=n < 3) for n in range(5)]
    source = tuple(Token(f"{frame.start_seconds:.2f}s", "frame", place=frame) for frame in frames)
    trace = replace(handmade("a b c d e"), source=source)
    monkeypatch.setattr("regard.tracing.run.trace", lambda *args, **options: trace)
    look = ["look", "--audio", tmp_path / "a.wav", "--model", "any", "--token", "0.50s", "--head", "L1H2"]
    assert invoke(*look).stderr == (
        "regard: the model reads 2.50 s; the silence after the recording, from 1.50 s on, is shown as one token; see "
        "its frames with --padding.\n"
    )
    weights = trace["L1H2"]["0.50s"]
    assert f"{float(weights[3:].sum()):.3f} on the silence after the recording" in invoke(*look).stdout
    shown = invoke(*look, "--padding", "--png", tmp_path / "all.png")
    assert shown.stderr == ""
    assert "on the silence" not in shown.stdout
    same = trace.figure(tmp_path / "same.png", "0.50s", "L1H2", padding=True)
    assert (tmp_path / "all.png").read_bytes() == same.read_bytes()
