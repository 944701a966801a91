"""Tests of back-translation: the pairs against the translator, the same pairs after a stop or a kill, refusals."""

import signal
from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest
from cli_runner import invoke, output, refused
from refusals import refusal

from regard import InputError
from regard.training import back_translation
from regard.training.back_translation import BackTranslation, Counts
from regard.training.watcher import Watcher
from regard.translation.search.sampling import Sample
from regard.translation.training_texts import TrainingTexts
from regard.translation.translation import Translation
from regard.translation.translator import Translator

LINES = ["the cat sat", "", "no dog", "a  mat", "the cat", "the mat sat", "no cat", "a dog", "the dog sat", "a cat"]


@pytest.fixture(autouse=True)
def groups_of_three(monkeypatch):
    monkeypatch.setattr(back_translation, "LINES_PER_CALL", 3)


@pytest.fixture
def task(tmp_path, translator_folder):
    (tmp_path / "mono.txt").write_text("".join(f"{line}\n" for line in LINES))
    return BackTranslation(
        translator=translator_folder,
        text=tmp_path / "mono.txt",
        source=tmp_path / "synthetic.source",
        target=tmp_path / "synthetic.target",
        search=Sample(top_k=9, seed=4),
    )


class Interrupter(Watcher):
    """Sends SIGINT, or raises an error, when n_lines lines are translated (-1: never); stores what it is told."""

    def __init__(self, n_lines=-1, fails=False):
        self.n_lines, self.fails, self.said, self.now = n_lines, fails, [], []

    def busy(self, text):
        self.now.append(text)
        if f"{self.n_lines:,} of" in text:
            if self.fails:
                raise RuntimeError("killed")
            signal.raise_signal(signal.SIGINT)

    def say(self, text):
        self.said.append(text)


def pairs(task):
    return list(zip(task.source.read_text().splitlines(), task.target.read_text().splitlines(), strict=True))


def taken(task):
    """Return the pairs of a finished run, and delete their files, so that another run can begin."""
    found = pairs(task)
    task.source.unlink()
    task.target.unlink()
    return found


def test_the_pairs_are_samples_of_the_translator(task, translator):
    counts = task.run("cpu", Watcher())
    texts = [" ".join(line.split()) for line in LINES]
    found = translator.translate(texts, search=task.search)
    expected = [
        (" ".join(one.text.split()), one.source)
        for one in found
        if one.source and one.text and not one.cut and "⁇" not in one.target_pieces
    ]
    assert pairs(task) == expected
    assert (counts.lines, counts.pairs) == (10, len(expected))
    assert counts.lines == counts.pairs + counts.empty + counts.over_long + counts.cut + counts.unknown
    names = sorted(path.name for path in task.text.parent.iterdir())
    assert names == ["mono.txt", "synthetic.source", "synthetic.target"]


def test_a_stopped_run_goes_on_to_the_same_pairs(task):
    task.run("cpu", Watcher())
    whole = taken(task)
    assert task.run("cpu", Interrupter(3)) is None
    assert not task.source.exists()
    assert not task.target.exists()
    last = Interrupter()
    assert task.run("cpu", last).lines == 10
    assert pairs(task) == whole
    assert last.said == ["resuming from line 7"]
    assert last.now[1:3] == ["loading the translator", "translating back: 6 of 10 lines"]
    assert last.now[3].startswith("translating back: 9 of 10 lines, 0:0")
    assert last.now[3].endswith(" left")


def test_a_killed_run_goes_on_to_the_same_pairs(task):
    task.run("cpu", Watcher())
    whole = taken(task)
    with pytest.raises(RuntimeError, match="killed"):
        task.run("cpu", Interrupter(6, fails=True))
    with (task.folder / "source").open("a") as file:
        file.write("half a li")
    assert task.run("cpu", Watcher()).lines == 10
    assert pairs(task) == whole


def test_a_run_with_another_search_begins_anew(task):
    assert task.run("cpu", Interrupter(3)) is None
    other, watcher = replace(task, search=Sample(top_k=9, seed=5)), Interrupter()
    other.run("cpu", watcher)
    assert watcher.said == ["an earlier run had another text, translator or search: its pairs are discarded"]
    found = taken(other)
    other.run("cpu", Watcher())
    assert pairs(other) == found


def test_a_damaged_state_begins_anew(task):
    assert task.run("cpu", Interrupter(3)) is None
    (task.folder / "state.json").write_text("{")
    assert task.run("cpu", Watcher()).lines == 10
    assert not task.folder.exists()


def test_lines_that_are_left_out_are_counted(task, monkeypatch):
    translate = Translator.translate

    def changed(self, texts, **options):
        found = translate(self, texts, **options)
        return [
            replace(one, cut=True) if one.source == "no dog" else
            replace(one, target_pieces=("⁇",)) if one.source == "a mat" else
            replace(one, text=" ") if one.source == "the cat" else
            replace(one, text="one", cut=False, target_pieces=("▁one",))
            for one in found
        ]  # fmt: skip

    monkeypatch.setattr(Translator, "translate", changed)
    assert task.run("cpu", Watcher()) == Counts(lines=10, pairs=6, empty=2, cut=1, unknown=1)


def test_a_text_in_another_script_is_refused(task, monkeypatch):
    kana = TrainingTexts(longest=99, smallest_ratio=0.0, largest_ratio=99.0, scripts=("kana",))
    foreign = replace(Translator.load(task.translator, "cpu"), extra={"training_texts": asdict(kana)})
    monkeypatch.setattr(back_translation, "Translator", SimpleNamespace(load=lambda *_, **__: foreign))
    assert refusal(InputError, task.run, "cpu", Watcher()) == (
        f"2 of the first 2 lines of {task.text} are written in Latin letters; the training texts are in kana; give a "
        f"translator from the language of mono.txt, not {task.translator}."
    )
    assert not task.folder.exists()


def test_lines_unlike_the_training_texts_are_counted(task, translator_folder, monkeypatch):
    monkeypatch.setattr(Translation, "unlike_source", ("rare",))
    printed = output("back-translate", translator_folder, task.text, task.source, task.target, "--quiet")
    assert printed.splitlines()[-5] == (
        f"remark      10 lines unlike the training texts of {translator_folder}; is this the right translator for them?"
    )


def test_files_that_exist_or_are_named_twice_or_do_not_exist_are_refused(task, tmp_path):
    assert refusal(InputError, replace(task, source=task.target).run, "cpu", Watcher()) == (
        f"{task.target} is named for the sources and for the targets; name two files."
    )
    assert refusal(InputError, replace(task, target=task.text).run, "cpu", Watcher()) == (
        f"{task.text} exists; name another file, or delete it."
    )
    assert refusal(InputError, replace(task, source=tmp_path / "none" / "a").run, "cpu", Watcher()) == (
        f"cannot write {tmp_path / 'none' / 'a'}: there is no folder {tmp_path / 'none'}."
    )
    task.text.unlink()
    assert (
        refusal(InputError, task.run, "cpu", Watcher()) == f"there is no file {task.text}; no file is in that folder."
    )


def test_a_folder_that_cannot_be_made_and_a_text_without_lines_are_refused(task):
    task.folder.write_text("a file of the name of the folder")
    message = f"cannot write the pairs to {task.source.parent}: file exists."
    assert refusal(InputError, task.run, "cpu", Watcher()) == message
    task.text.write_text("")
    assert refusal(InputError, task.run, "cpu", Watcher()) == f"{task.text} has no lines; give at least one."
    assert not task.source.exists()


def test_the_verb_writes_the_pairs_of_the_task(task, translator_folder):
    files = translator_folder, task.text, task.source, task.target
    printed = output("back-translate", *files, "--top-k", 9, "--seed", 4, "--device", "cpu", "--quiet")
    found = taken(task)
    assert printed.splitlines()[0] == f"pairs       {len(found)} of 10 lines"
    assert printed.splitlines()[-1] == (
        f"now         regard train …,{task.source} …,{task.target} --synthetic 2 --out …"
    )
    task.run("cpu", Watcher())
    assert pairs(task) == found


def test_the_verb_with_8_bit_integers(task, translator_folder, monkeypatch):
    loaded, load = [], Translator.load

    def note(folder, device, *, int8):
        loaded.append(int8)
        return load(folder, device, int8=int8)

    monkeypatch.setattr(Translator, "load", note)
    files = translator_folder, task.text, task.source, task.target
    output("back-translate", *files, "--greedy", "--device", "cpu", "--quiet", "--int8")
    assert loaded == [True]
    assert task.description() != replace(task, int8=True).description()  # it does not continue a run in float32


def test_a_stopped_verb_says_so(task, translator_folder, monkeypatch):
    monkeypatch.setattr(BackTranslation, "run", lambda self, device, watcher: None)
    result = invoke("back-translate", translator_folder, task.text, task.source, task.target, "--quiet")
    assert result.exit_code == 130
    assert result.stdout == "stopped and saved; the same command continues from there\n"


ONE_SEARCH = "a search is --greedy, or --beam, or sampling with its options."


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--greedy", "--top-k", 3), f"got --greedy and --top-k; {ONE_SEARCH}"),
        (("--beam", 3, "--top-k", 3), f"got --beam and --top-k; {ONE_SEARCH}"),
        (("--beam", 0), "--beam 0 is the number of hypotheses in the beam; it must be at least 1."),
    ],
)
def test_searches_that_do_not_exist_are_refused(task, translator_folder, options, said):
    assert refused("back-translate", translator_folder, task.text, task.source, task.target, *options) == said
