"""`regard score`: the scores of given pairs, piece by piece, and its refusals."""

import json
from dataclasses import replace

import pytest
from cli_runner import invoke, output, refused

SOURCES = ["the cat sat", "no dog", "", "a mat"]
TARGETS = ["die katze sass", "kein hund", "", "eine matte"]


@pytest.fixture
def files(tmp_path):
    source, target = tmp_path / "a.txt", tmp_path / "b.txt"
    source.write_text("".join(f"{line}\n" for line in SOURCES))
    target.write_text("".join(f"{line}\n" for line in TARGETS))
    return source, target


def scores(translator_folder, files, *options):
    return output("score", translator_folder, *files, "--device", "cpu", *options).split("\n")[:-1]


def test_a_score_is_the_mean_log_probability_of_a_piece(translator_folder, files, translator):
    expected = translator.score(SOURCES, TARGETS)
    for line, one in zip(scores(translator_folder, files), expected, strict=True):
        assert float(line) == pytest.approx(one.log_probability / (len(one.target_ids) + 1), abs=1e-5)


def test_pairs_follow_their_scores(translator_folder, files):
    found = [line.split("\t") for line in scores(translator_folder, files, "--pairs")]
    assert [pair for _, *pair in found] == [list(pair) for pair in zip(SOURCES, TARGETS, strict=True)]


def test_tabs_separate_the_texts_of_a_pair_only(translator_folder, tmp_path):
    for name, text in (("a", "\tthe\tcat sat\n"), ("b", "die\tkatze\n")):
        (tmp_path / name).write_text(text)
    (line,) = scores(translator_folder, [tmp_path / "a", tmp_path / "b"], "--pairs")
    assert line.split("\t")[1:] == [" the cat sat", "die katze"]


def test_the_pieces_add_up(translator_folder, files, translator):
    for line in scores(translator_folder, files, "--json"):
        record = json.loads(line)
        assert sum(number for _, number in record["pieces"]) == pytest.approx(record["log_probability"], abs=1e-4)
        assert record["score"] == pytest.approx(record["log_probability"] / len(record["pieces"]), abs=1e-5)
        assert record["pieces"][-1][0] == "</s>"
        spelt = "".join(piece for piece, _ in record["pieces"][:-1]).replace("▁", " ")
        assert spelt.split() == record["target"].split()


def test_texts_of_different_lengths_are_refused(translator_folder, files):
    long, short = files
    cases = ((long, short, "kein hund", "1 line"), (short, long, "die katze sass\nkein hund", "2 lines"))
    for source, target, text, lines in cases:
        short.write_text(f"{text}\n")
        assert refused("score", translator_folder, source, target, "--device", "cpu") == (
            f"{short} has {lines} and {long} has more; line n of {target} must be the translation of line n of "
            f"{source}."
        )


def test_a_translation_with_its_score_and_the_expected_chrf(translator, tmp_path):
    calibration = {"mean_log_probability": [-1.0, 0.0], "chrf": [0.0, 50.0]}
    calibrated = replace(translator, extra={"calibration": calibration})
    folder = calibrated.save(tmp_path / "en-de")
    arguments = ("translate", folder, "--device", "cpu", "--scores")
    lines = output(*arguments, text="the cat sat\nno dog\n\n").split("\n")
    for line, one in zip(lines[:2], calibrated.translate(["the cat sat", "no dog"]), strict=True):
        text, score, chrf = line.split(" ||| ")
        assert text == one.text
        assert float(score) == pytest.approx(one.log_probability / (len(one.target_ids) + 1), abs=1e-4)
        assert float(chrf) == pytest.approx(50 * max(0, 1 + float(score)), abs=0.06)
    assert lines[2:] == [" ||| 0.000000 ||| -", ""]
    fields = [line.split(" ||| ") for line in output(*arguments, "-a", "-n", 2, text="the cat sat\n").splitlines()]
    assert [len(line) for line in fields] == [6, 6]


def test_without_a_calibration_the_expected_chrf_is_a_dash(translator_folder):
    result = invoke("translate", translator_folder, "--device", "cpu", "--scores", text="no dog\n")
    assert result.exit_code == 0
    assert result.stdout.endswith(" ||| -\n")
    assert result.stderr.splitlines() == [
        "the expected chrF is written as -: the translator has no calibration; regard train stores one at its end if "
        "there are at least 20 dev pairs, and Translator.calibrated measures one"
    ]


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_on_a_terminal_a_bar_is_shown_and_the_scores_still_go_to_standard_output(
    translator_folder, files, options, monkeypatch
):
    expected = scores(translator_folder, files, *options)
    monkeypatch.setenv("FORCE_COLOR", "1")  # for rich, the error stream is a terminal now
    result = invoke("score", translator_folder, *files, "--device", "cpu", *options)
    assert result.stdout.split("\n")[:-1] == expected
    assert "scoring" in result.stderr
