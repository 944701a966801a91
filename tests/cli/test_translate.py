"""`regard translate`: line for line, whatever the lines are; its options, its remarks, its refusals."""

import gzip
import json
import subprocess
import sys
from io import BytesIO
from itertools import chain

import pytest
from cli_runner import invoke, output, refused

from regard import InputError
from regard.cli import text_lines
from regard.cli.text_lines import FIRST_BYTES, available_lines, read_lines
from regard.cli.translate import prompt_for
from regard.text.parallel import LONGEST_LINE
from regard.translation.search.beam import Beam
from regard.translation.search.greedy import Greedy
from regard.translation.search.minimum_risk import MinimumRisk
from regard.translation.search.sampling import Sample
from regard.translation.translator import Translator

LINES = ["the cat sat", "", "a dog ran to the cat", "no dog", "   ", "the mat"]
TEXT = "".join(f"{line}\n" for line in LINES)


@pytest.fixture
def folder(translator_folder, translator, monkeypatch):
    """Return the trained translator's folder; commands use the translator in memory instead of reading the folder."""
    load = Translator.load

    def load_once(folder, device=None, *, int8=False):
        in_memory = (folder, device, int8) == (translator_folder, "cpu", False)
        return translator if in_memory else load(folder, device, int8=int8)

    monkeypatch.setattr(Translator, "load", load_once)
    return translator_folder


def arguments_for(folder, *arguments):
    return "translate", folder, "--device", "cpu", *arguments


def lines(folder, *arguments, text=TEXT):
    printed = output(*arguments_for(folder, *arguments), text=text)
    assert printed.endswith("\n") or not printed
    return printed.split("\n")[:-1]


def refused_text(folder, *arguments, text="the cat\n"):
    return refused(*arguments_for(folder, *arguments), text=text)


@pytest.mark.parametrize(
    ("options", "search"),
    [
        ((), Beam()),
        (("--beam", 3, "--length-penalty", 1.5, "--coverage-penalty", 0.2), Beam(3, 1.5, 0.2)),
        (("--greedy",), Greedy()),
        (("--sample", "--temperature", 0.5, "--top-k", 4, "--top-p", 0.9, "--seed", 7), Sample(0.5, 4, 0.9, 7)),
        (("--mbr", 4), MinimumRisk(4)),
        (
            ("--mbr", 3, "--beam", 4, "--length-penalty", 0.5, "--top-k", 9, "--seed", 2),
            MinimumRisk(3, Beam(4, 0.5, n_best=4), Sample(top_k=9, seed=2)),
        ),
        (("--batch-tokens", 1), Beam()),
    ],
)
def test_a_line_for_a_line(folder, translator, options, search):
    expected = [one.text for one in translator.translate(LINES, search=search)]
    assert lines(folder, *options) == expected
    assert [expected[1], expected[4]] == ["", ""]


def test_a_translation_with_integers_as_weights(folder):
    expected = Translator.load(folder, "cpu", int8=True).translate(LINES)
    scored = [line.split(" ||| ") for line in lines(folder, "--int8", "--scores")]
    assert [text for text, *_ in scored] == [one.text for one in expected]
    assert [score for _, score, _ in scored] == [f"{one.mean_log_probability:.6f}" for one in expected]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("", []),
        ("\n", [""]),
        ("no dog", ["no dog"]),
        ("no dog\n\n\n", ["no dog", "", ""]),
        ("\ufeffno dog\r\n\r\nthe cat\r\n", ["no dog", "", "the cat"]),
        ("no\u2028dog\x0bcat\x85the\n", ["no\u2028dog\x0bcat\x85the"]),
        ("a\0b\n", ["a\0b"]),
    ],
)
def test_only_line_feeds_end_lines(folder, text, meant):
    assert len(lines(folder, text=text)) == len(meant)
    assert [line for part in read_lines(BytesIO(text.encode())) for line in part] == meant


def test_lines_are_given_as_they_come():
    """Each read gives what is there: a line that was typed, or a part of a file that grows."""

    class Typed(BytesIO):
        parts = iter([b"one\ntw", b"o\n", b"three"])

        def read1(self, size=-1):
            return next(self.parts, b"")

    assert list(available_lines(Typed())) == [[b"one"], [b"two"], [b"three"]]
    many = b"".join(b"%d\n" % n for n in range(100_000))
    given = list(available_lines(BytesIO(many)))
    assert sum(map(len, given)) == 100_000
    assert sum(map(len, given[0])) < FIRST_BYTES
    assert [line for part in given for line in part] == many.split(b"\n")[:-1]


def test_a_line_without_end_is_not_read_into_memory(tmp_path):
    """The line is refused as soon as it is longer than a line may be, however much is still to come."""

    class Endless(BytesIO):
        n_read = 0

        def readinto(self, place):
            self.n_read += len(place)
            place[:] = b"a" * len(place)
            return len(place)

    endless = Endless()
    with pytest.raises(InputError) as refused:
        list(read_lines(endless, tmp_path / "a.txt"))
    assert str(refused.value) == (
        f"{tmp_path / 'a.txt'}, line 1: longer than {LONGEST_LINE:,} bytes; give a file with a sentence on each line."
    )
    assert endless.n_read < 3 * LONGEST_LINE
    longest = b"a" * LONGEST_LINE + b"\n"
    assert list(map(len, chain.from_iterable(read_lines(BytesIO(3 * longest))))) == 3 * [LONGEST_LINE]
    with pytest.raises(InputError, match=f"^standard input, line 3: longer than {LONGEST_LINE:,} bytes; "):
        list(read_lines(BytesIO(longest + b"b\na" + longest)))


def test_a_file_is_read_and_unpacked(folder, tmp_path):
    packed = gzip.compress("\ufeffno dog\n".encode()) + gzip.compress(b"the cat")
    assert list(chain.from_iterable(read_lines(BytesIO(packed)))) == ["no dog", "the cat"]
    (tmp_path / "a").write_bytes(packed)
    assert lines(folder, "--input", tmp_path / "a", text="") == lines(folder, text="no dog\nthe cat\n")
    (tmp_path / "a").write_bytes(packed[:-9])
    assert refused_text(folder, "--input", tmp_path / "a").startswith(f"cannot read {tmp_path / 'a'}: ")
    assert refused_text(folder, "--input", tmp_path / "b") == (f"there is no file {tmp_path / 'b'}; nearest: a.")


def test_several_samples_are_those_of_successive_seeds(folder, translator):
    options = "--temperature", 5, "--seed", 7
    found = [line.split(" ||| ")[:2] for line in lines(folder, "--sample", "--n-best", 3, *options, text="no dog\n")]
    drawn = [translator.translate(["no dog"], search=Sample(5.0, seed=seed))[0].text for seed in (7, 8, 9)]
    assert found == [["0", text] for text in drawn]
    assert len(set(drawn)) > 1


def test_many_lines_are_the_same_lines_in_parts(folder, translator, monkeypatch):
    monkeypatch.setattr(text_lines, "FIRST_BYTES", 8)
    monkeypatch.setattr(text_lines, "MOST_BYTES", 8)
    assert lines(folder, "--sample") == [one.text for one in translator.translate(LINES, search=Sample())]


def test_alignments_over_the_words_of_the_line(folder, translator):
    found = translator.translate(LINES)
    for line, one in zip(lines(folder, "--alignments"), found, strict=True):
        text, pairs = line.split(" ||| ")
        assert text == one.text
        targets = []
        for pair in pairs.split():
            source, target = map(int, pair.split("-"))
            assert source < len(one.source.split())
            targets.append(target)
        assert sorted(set(targets)) == list(range(len(one.text.split())))


def test_n_best_with_scores(folder, translator):
    found = translator.translate(LINES, search=Beam(5, n_best=3))
    expected = [
        f"{number} ||| {candidate.text} ||| {candidate.score:.6f}"
        for number, one in enumerate(found)
        for candidate in one.candidates
    ]
    assert lines(folder, "--n-best", 3) == expected
    fields = [line.split(" ||| ") for line in lines(folder, "--n-best", 3, "-a")]
    assert [" ||| ".join(field[:3]) for field in fields] == expected
    assert {len(field) for field in fields} == {4}
    assert len(lines(folder, "--n-best", 8, text="no dog\n")) == 8  # the beam is as wide as it must be


def test_json_has_the_texts_scores_and_alignments(folder, translator):
    records = [json.loads(line) for line in lines(folder, "--json", "--n-best", 2)]
    found = translator.translate(LINES, search=Beam(n_best=2))
    assert [record["text"] for record in records] == [one.text for one in found]
    for record, one in zip(records, found, strict=True):
        assert record["alignment"] == [list(pair) for pair in sorted(one.alignment.pairs)]
        assert record["score"] == pytest.approx(one.score, abs=1e-4)
        assert len(record["candidates"]) == len(one.candidates)


def test_translations_begin_with_the_prefix_or_that_of_the_line(folder, tmp_path):
    assert all(line.startswith("ein hund") for line in lines(folder, "--prefix", "ein hund") if line)
    path = tmp_path / "prefixes.txt"
    path.write_text("die\n\nein\n")
    found = lines(folder, "--prefix-file", path, text="the cat\nthe mat\nno dog\n")
    assert (found[0][:3], found[2][:3]) == ("die", "ein")
    assert refused_text(folder, "--prefix-file", path, text="the cat\n") == (
        f"{path} has 3 prefixes, but the text has fewer lines (1); give a file with one prefix for each line."
    )
    assert refused_text(folder, "--prefix-file", path, text="the cat\n" * 4) == (
        f"{path} has 3 prefixes, and there are more lines to translate; "
        "give a file with one prefix for each line, which may be empty."
    )
    path.write_bytes(b"die\nkatz\xe4\n")
    assert refused_text(folder, "--prefix-file", path, text="the cat\n" * 2) == (
        f"{path}, line 2: not UTF-8 (byte 0xE4 at position 5); "
        "convert the file first, for instance with iconv -f LATIN1 -t UTF-8."
    )


def test_remarks_name_the_line(folder):
    result = invoke(*arguments_for(folder, "--truncate"), text="the cat\nthe ẞ 漢\nẞ " + "no " * 40 + "\n")
    assert result.exit_code == 0
    remarks = dict(remark.split(": ", 1) for remark in result.stderr.splitlines())
    assert remarks["line 2"] == "the translator does not know 'ẞ', '漢'"
    assert remarks["line 3"].startswith(
        "the translator does not know 'ẞ'; too long: the first 30 pieces were read and the last "
    )
    assert not remarks.get("line 1", "").startswith("the translator does not")


def test_a_line_that_is_too_long_is_translated_sentence_by_sentence(folder, translator):
    sentences = ["the cat sat on a mat.", "no dog.", "a dog ran."] * 3
    found = [one.text for one in translator.translate(sentences)]
    result = invoke(*arguments_for(folder), text=f"the cat\n{' '.join(sentences)}\nno dog\n")
    assert result.exit_code == 0
    assert result.stdout.split("\n")[1] == " ".join(found)
    assert "line 2: long: translated in 9 parts" in result.stderr.split("\n")
    assert result.stdout.split("\n")[2] == translator.translate(["no dog"])[0].text


def test_a_line_with_a_clause_that_is_too_long_is_marked_and_the_rest_goes_on(folder, translator):
    long = " ".join(["no"] * 40)
    result = invoke(*arguments_for(folder), text=f"the cat\n{long}\nno dog\n")
    (first, last) = (one.text for one in translator.translate(["the cat", "no dog"]))
    assert result.stdout.split("\n") == [first, f"⁇ {long}", last, ""]
    remark = "line 2: not translated: a clause is too long; divide it, or translate only its beginning with --truncate"
    assert remark in result.stderr.split("\n")
    assert result.exit_code == 1


def test_the_lines_before_one_that_is_no_text_are_translated(folder):
    result = invoke(*arguments_for(folder), text=b"the cat\nno dog\n\nca\xff\n")
    assert len(result.stdout.split("\n")) == 4  # the lines before it have been translated
    assert str(result.exception) == (
        "standard input, line 4: not UTF-8 (byte 0xFF at position 3); "
        "convert the file first, for instance with iconv -f LATIN1 -t UTF-8."
    )


ONE_SEARCH = "choose one search: --greedy, --sample, or beam search with its options."


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--greedy", "--beam", 3), f"got --greedy and --beam; {ONE_SEARCH}"),
        (("--greedy", "--sample"), f"got --greedy and --sample; {ONE_SEARCH}"),
        (("--sample", "--n-best", 3, "--mbr", 2), f"got --sample and --mbr; {ONE_SEARCH}"),
        (("--mbr", 8, "--sample"), f"got --sample and --mbr; {ONE_SEARCH}"),
        (("--mbr", 0), "--mbr 0 must be at least 1: candidates are compared with samples."),
        (("--mbr", 8, "--beam", 1), "--beam 1 leaves nothing to choose; it must be at least 2."),
        (
            ("--mbr", 8, "--beam", 3, "--n-best", 4),
            "--n-best 4 must be at least 1 and at most 3, the number of candidates.",
        ),
        (("--top-p", 0.5), "--top-p 0.5 is an option of --sample; give --sample too."),
        (("--seed", 0), "--seed 0 is an option of --sample; give --sample too."),
        (("--sample", "--n-best", 0), "--n-best 0 must be at least 1."),
        (("--beam", 0), "--beam 0 is the number of hypotheses in the beam; it must be at least 1."),
        (
            ("--beam", 3, "--n-best", 4),
            "--n-best 4 does not fit --beam 3; it must be at least 1 and at most that size.",
        ),
        (
            ("--sample", "--temperature", 0),
            "--temperature 0.0 must be a number above 0; for the most probable token use --greedy.",
        ),
        (("--batch-tokens", 0), "--batch-tokens 0 must be at least 1."),
        (("--prefix", "a", "--prefix-file", "b"), "got --prefix and --prefix-file; give one of them."),
        (("--device", "gpu"), "there is no device 'gpu'; nearest: cpu; give cpu, cuda or mps."),
    ],
)
def test_options_that_do_not_fit_are_refused(folder, options, message):
    assert refused_text(folder, *options) == message


def test_a_reader_that_stops_is_no_error(folder):
    """As with `regard translate … | head -1`."""
    command = [sys.executable, "-m", "regard", "translate", str(folder), "--greedy", "--device", "cpu"]
    run = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    run.stdin.write(b"the cat\n")
    run.stdin.flush()
    assert run.stdout.readline().endswith(b"\n")  # answered before the next line is there
    run.stdout.close()
    run.stdin.write(b"the cat\n" * 3)
    run.stdin.close()
    run.wait()
    assert b"Traceback" not in run.stderr.read()
    run.stderr.close()


def test_explain_works_out_a_head_of_a_translator(folder):
    options = "--target", "ein hund", "--head", "cross L1H0", "--json", "-", "--model", folder
    worked = json.loads(output("explain", "--text", "the cat", *options))
    seen = json.loads(output("look", "the cat", *options))
    assert seen["target_text"] == "ein hund"
    assert (worked["title"], worked["queries"]) == (f"{folder.name} · cross L1H0", seen["queries"])
    weights = next(stage for stage in worked["stages"] if stage["name"] == "weights")["matrix"]
    assert weights == [pytest.approx(row, abs=2e-6) for row in seen["weights"]["L1H0"]]
    assert refused("look", " ", "--model", folder) == "the text is empty; give at least one word to look at."


def test_on_a_terminal_a_prompt_asks_for_each_line(monkeypatch, capsys):
    stream = BytesIO(b"one\ntwo\n")
    assert prompt_for(stream, "en-de")() is None
    assert capsys.readouterr().err == ""
    for side in (sys.stdout, sys.stderr):
        monkeypatch.setattr(side, "isatty", lambda: True)
    terminal = type("Terminal", (BytesIO,), {"isatty": lambda self: True})(b"one\ntwo\n")
    assert list(read_lines(terminal, prompt=prompt_for(terminal, "en-de"))) == [["one", "two"]]
    assert capsys.readouterr().err == "Type a text and press Enter; Ctrl-D ends.\nen-de> en-de> "
