"""The arithmetic and the pages of the benchmarks, against numbers by hand; no test depends on a measured time."""

import doctest
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import alignment
import attend
import calibration
import gpu
import hand_alignment
import inspection
import int8
import machine
import measure
import memory
import model_types
import models
import number_alignment
import pages
import panning
import picture
import pytest
import recipes
import results
import sentences
import service
import table
import torch
import training
import translation
import translators
import unfused
from measure import Elapsed, Spread, groups, ratio, take_turns
from refusals import refusal

from regard.errors import InputError
from regard.text.sample import sample
from regard.training.settings.train_config import Evaluation, Model, TrainConfig, Training
from regard.training.train import train as train_translator


@pytest.mark.parametrize(
    "module",
    [calibration, hand_alignment, measure, model_types, number_alignment, recipes, table, sentences],
    ids=lambda module: module.__name__,
)
def test_doctests_of_the_benchmarks_pass(module):
    found = doctest.testmod(module)
    assert found.attempted > 0
    assert found.failed == 0


def test_a_ratio_is_that_of_the_rounds_and_its_spread_that_of_ten_groups():
    one = [2.0, 4.0] * 10
    other = [1.0] * 10 + [2.0] * 10  # the machine was half as fast: both kinds of round took twice as long
    found = ratio(one, other)
    assert found == Spread(median=2.0, least=1.5, most=3.0)  # ratios 2 4 2 4 …, then 1 2 1 2 …; groups of two
    assert str(found) == "2.00 [1.50 to 3.00]"


def test_groups_hold_everything_in_order():
    for n in (1, 2, 9, 10, 11, 60, 63):
        made = groups(list(range(n)))
        assert [number for group in made for number in group] == list(range(n))
        assert len(made) == min(n, 10)
        assert {len(group) for group in made} <= {n // 10, n // 10 + 1, 1}


def test_functions_take_turns_and_the_first_round_is_not_counted():
    calls = []

    def run(name, seconds):
        calls.append(name)
        return Elapsed(seconds)

    elapsed = take_turns({"a": lambda: run("a", 2.0), "b": lambda: run("b", 3.0)}, seconds=0)
    assert elapsed == {"a": [2.0] * 3, "b": [3.0] * 3}
    assert calls[:2] == ["a", "b"]
    assert [sorted(calls[i : i + 2]) for i in (2, 4, 6)] == [["a", "b"]] * 3
    assert len(calls) == 8


def made(name="attend"):
    return table.Table(
        name=name,
        title="A title",
        about="What it is.",
        command="python benchmarks/attend.py",
        machine={"CPU": "one", "torch": "2"},
        rows=[
            {"length": 512, "mask": "none", "ms": 1.25, "ratio": Spread(1.0, 0.9, 1.1)},
            {"length": 1024, "mask": "none", "ms": None, "ratio": None},
        ],
        picture=picture.Picture(x="length", y=["ratio"], each=["mask"], label="times"),
    )


MARKDOWN = """\
## A title

What it is.

    python benchmarks/attend.py

| length | mask | ms | ratio |
| --- | --- | --- | --- |
| 512 | none | 1.25 | 1.00 [0.90 to 1.10] |
| 1,024 | none | – | – |

![A title](results/attend.svg)

CPU one; torch 2."""


def test_a_table_is_written_read_and_drawn(tmp_path):
    made().write(tmp_path / "results")
    folder = tmp_path / "results"
    assert sorted(path.name for path in folder.iterdir()) == ["attend.json", "attend.md", "attend.svg"]
    assert table.Table.read(folder / "attend.json") == made()
    assert made().markdown("results") == MARKDOWN
    before = (folder / "attend.svg").read_bytes()
    made().write(folder)
    assert (folder / "attend.svg").read_bytes() == before
    assert len(before) < 30_000


def test_a_picture_over_words_has_bars(tmp_path):
    rows = [{"model": "tiny", "a": 1.0, "b": Spread(2.0, 1.5, 2.5)}, {"model": "small", "a": 3.0, "b": None}]
    picture.draw(picture.Picture(x="model", y=["a", "b"], label="tokens"), "Bars", rows, tmp_path / "bars.svg")
    assert "tiny" in (tmp_path / "bars.svg").read_text()


def test_the_page_has_the_tables_in_their_order_and_what_was_written_by_hand(tmp_path):
    folder = tmp_path / "results"
    for name in ("training", "attend-h200", "attend"):
        made(name).write(folder)
    (folder / "multi30k.md").write_text("## By hand\n")
    results.main(folder, tmp_path / "RESULTS.md")
    text = (tmp_path / "RESULTS.md").read_text()
    assert text.startswith("# Results\n")
    places = [text.index(f"results/{name}.svg") for name in ("attend", "attend-h200", "training")]
    assert places == sorted(places)
    assert text.index("## By hand") > places[-1]


def test_the_command_of_a_table_is_without_its_output_folder(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["x", "--quick", "--out", "somewhere", "--length", "8"])
    assert table.command_of("/any/where/attend.py") == "python benchmarks/attend.py --quick --length 8"


@pytest.fixture(autouse=True)
def no_garbage_collection(monkeypatch):
    """The garbage collector takes a second in a process with so many tests, each time."""
    names = "collect", "freeze", "disable", "enable", "unfreeze"
    monkeypatch.setattr(measure, "gc", SimpleNamespace(**dict.fromkeys(names, lambda: None)))


@pytest.fixture
def busy(monkeypatch):
    """Measuring the processor use takes a second."""
    monkeypatch.setattr("psutil.cpu_percent", lambda interval: 3.0)


@pytest.fixture
def once(busy, monkeypatch):
    """Measure each function in one round, and once in it."""
    monkeypatch.setattr(measure, "MOST_ROUNDS", 1)
    monkeypatch.setattr(measure, "LEAST_SECONDS", 0.0)


def test_a_quick_run_prints_its_table_and_writes_nothing(once, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(table, "RESULTS", tmp_path / "results")
    unfused.main(length=[64], seconds=0, quick=True)
    assert capsys.readouterr().out.count("\n| ") >= 4
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("script", "options", "name"),
    [
        (attend, {"length": [8]}, "attend"),
        (unfused, {"length": [64]}, "unfused"),
        (inspection, {"length": [64], "width": [8]}, "inspection"),
        (inspection, {"length": [64], "width": [8], "heads": 2}, "inspection-heads-2"),
    ],
)
def test_a_quick_run_writes_its_table_where_it_is_told_to(script, options, name, once, tmp_path, capsys):
    script.main(**options, seconds=0, quick=True, out=tmp_path)
    assert capsys.readouterr().out.count("\n| ") >= 4
    assert json.loads((tmp_path / f"{name}.json").read_text())["rows"]


def test_a_benchmark_of_a_gpu_is_refused_without_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert refusal(SystemExit, gpu.main, quick=True) == (
        "benchmarks/gpu.py measures a GPU, and PyTorch sees none here; run it where there is one."
    )


@pytest.fixture
def in_threads(monkeypatch):
    """Run in a thread what a benchmark measures in a process of its own, which would import PyTorch again."""
    with ThreadPoolExecutor(1) as threads:
        for script in (memory, models, pages):
            monkeypatch.setattr(script, "in_new_process", lambda *call: threads.submit(*call).result())
        yield


def test_in_new_process_runs_in_another_process():
    assert measure.in_new_process(os.getpid) != os.getpid()


@pytest.mark.slow
@pytest.mark.usefixtures("in_threads")
@pytest.mark.filterwarnings("default")  # of other programs
@pytest.mark.parametrize(
    "script", [alignment, memory, models, pages, panning, training], ids=lambda script: script.__name__
)
def test_a_quick_run_of_a_long_benchmark_writes_its_table(script, busy, tmp_path, capsys):
    with ThreadPoolExecutor(1) as thread:  # Playwright refuses a thread in which the browser of another test runs
        thread.submit(script.main, quick=True, threads=1, out=tmp_path).result()
    assert capsys.readouterr().out.count("\n| ") >= 3
    assert json.loads((tmp_path / f"{script.__name__}.json").read_text())["rows"]


@pytest.mark.slow
def test_recipes_are_compared_on_the_same_lines_and_not_trained_twice(busy, tmp_path, capsys, monkeypatch):
    work = tmp_path / "work"
    recipes.main(quick=True, work=work, out=tmp_path)
    made = json.loads((tmp_path / "recipes.json").read_text())["rows"]
    assert [row["recipe"] for row in made] == list(recipes.RECIPES)
    assert all(row["million tokens"] > 0 for row in made)
    monkeypatch.setattr(recipes, "train", None)
    recipes.main(recipe=["half, back-translation"], quick=True, work=work, out=tmp_path)
    again = json.loads((tmp_path / "recipes.json").read_text())["rows"]
    assert again == [row for row in made if row["recipe"] in ("half of the pairs", "half, back-translation")]


@pytest.mark.slow
def test_recipes_of_another_corpus_have_no_columns_of_items(busy, tmp_path, capsys):
    names = sample("de", "en", {"all": 300}, seed=7)["all"]
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{english}\t{german}\n" for german, english in names), "utf-8")
    recipes.main(pairs, ["MBR"], corpus="Numbers", language="de", limit=150, quick=True, out=tmp_path)
    made = json.loads((tmp_path / "recipes-numbers.json").read_text())
    assert [row["recipe"] for row in made["rows"]] == ["default", "MBR"]
    assert list(made["rows"][0]) == ["recipe", "BLEU", "±", "gain", "chrF2", "million tokens"]
    assert made["about"].startswith("Small translators from de to en, trained by `regard train` on 13")


def test_no_text_of_the_test_is_trained_on(tmp_path):
    pairs = [(f"톰은 {number % 40}", f"Tom {number % 30}") for number in range(120)]
    texts = recipes.split(pairs, tmp_path, recipes.QUICK)
    assert len(texts.test) == recipes.QUICK.test
    assert 0 < len(texts.train) < 120 - recipes.QUICK.test
    for side in (0, 1):
        assert not {pair[side] for pair in texts.train} & {pair[side] for pair in texts.test}


def test_tokens_of_a_recipe_are_those_of_its_trainings(tmp_path):
    entries = [
        {"tokens_per_second": 100, "elapsed_seconds": 2.0},
        {"dev_bleu": 1.0},
        {"tokens_per_second": 50, "elapsed_seconds": 3.0},
    ]
    for folder, n_entries in (("back-translation-1", 3), ("reverse-1", 1)):
        log = tmp_path / folder / "translator" / "log.jsonl"
        log.parent.mkdir(parents=True)
        log.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries[:n_entries]), "utf-8")
    texts = recipes.Texts(
        corpus=recipes.Corpus("Tatoeba", "ko"), train=[], test=[], items=[], folder=tmp_path, sizes=recipes.QUICK
    )
    assert recipes.tokens_trained("half, back-translation", 1, texts) == 2 * 100 + 1 * 50 + 2 * 100


def test_kept_items_are_counted_by_kind():
    items = [(("", "Bo left"), "Bo"), (("", "12 left"), "12"), (("", "www.bo.com left"), "www.bo.com")] * 2
    of_one_seed = recipes.Measured(
        [], ["Bo left", "7 left", "www.bo.com left", "Tom left", "7 left", "www.bo.com left"]
    )
    cells = recipes.items_of([of_one_seed], items)
    assert [cells[f"{kind}s kept"] for kind in recipes.KINDS] == [50, 0, 100]


def test_an_unknown_recipe_is_refused():
    assert refusal(SystemExit, recipes.main, recipe=["defautl"], quick=True) == (
        f"no recipe 'defautl'; there are {', '.join(map(repr, recipes.RECIPES))}."
    )
    assert refusal(SystemExit, recipes.main) == (
        "benchmarks/recipes.py needs kor.txt of manythings.org/anki; --quick runs without it."
    )


@pytest.fixture(scope="module")
def trained_folder(tmp_path_factory):
    """A corpus of number names with its translator, trained for two steps, in a folder named en-de."""
    folder = tmp_path_factory.mktemp("numbers")
    train, test = sentences.sentences("en", "de", train=200, test=3)
    for name, pairs in (("train", train), ("test", test)):
        for language, lines in zip(("en", "de"), zip(*pairs, strict=True), strict=True):
            (folder / f"{name}.{language}").write_text("\n".join(lines) + "\n")
    config = TrainConfig(
        model=Model(changes={"d_model": 32, "n_heads": 2, "d_ff": 64, "n_layers": 1, "max_tokens": 257}),
        training=Training(max_steps=2),
        evaluation=Evaluation(every_steps=2, pairs=2),
    )
    train_translator(folder / "train.en", folder / "train.de", folder / "en-de", config, device="cpu")
    return folder


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # of other programs
def test_translating_is_compared_with_other_programs(trained_folder, once, tmp_path, capsys):
    translation.main(trained_folder / "en-de", trained_folder / "test.en", quick=True, threads=1, out=tmp_path)
    beam, greedy = json.loads((tmp_path / "translation-en-de.json").read_text())["rows"]
    assert (beam["search"], greedy["search"]) == ("beam 5", "greedy")
    assert min(beam["CTranslate2 int8"], beam["regard"], beam["regard int8"], greedy["generate"]) > 0


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # of other programs
def test_8_bit_integers_are_compared_with_float32(trained_folder, busy, tmp_path, capsys):
    files = (trained_folder / name for name in ("en-de", "test.en", "test.de"))
    int8.main(*files, quick=True, out=tmp_path)
    beam, greedy = json.loads((tmp_path / "translation-int8-en-de.json").read_text())["rows"]
    assert (beam["search"], greedy["search"]) == ("beam 5", "greedy")
    assert beam["regard int8 - regard"] == beam["regard int8"] - beam["regard"]
    assert beam["same"].endswith(f" of {int8.QUICK_LINES}")


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # of other programs
def test_a_service_is_compared_with_another_program_behind_the_same_server(trained_folder, once, tmp_path, capsys):
    service.main(trained_folder / "en-de", trained_folder / "test.en", [2], quick=True, out=tmp_path)
    (row,) = json.loads((tmp_path / "service-en-de.json").read_text())["rows"]
    assert row["clients"] == 2
    assert min(row["loop"], row["regard serve"], row["CTranslate2"]) > 0


@pytest.mark.slow
def test_translators_of_a_corpus_are_measured(trained_folder, busy, tmp_path, capsys):
    translators.main(trained_folder, [trained_folder / "en-de"], out=tmp_path)
    (row,) = json.loads((tmp_path / "translators.json").read_text())["rows"]
    assert (row["translator"], row["steps"], row["published"]) == ("en-de Transformer", "2 of 2", None)


def test_the_description_of_the_machine_has_its_processor_use(busy):
    assert machine.machine()["busy before"] == "3 %"


def test_alignments_by_hand_are_found_by_the_texts_of_their_pairs(tmp_path, monkeypatch, capsys, translator_folder):
    table = tmp_path / "alignments.tsv"
    table.write_text(f"{hand_alignment.hash_of('the cat ran', 'die katze lief')}\t0-0 1-1 2-2\t0-1\nabc\t0-0\t\n")
    monkeypatch.setattr(hand_alignment, "ALIGNMENTS", table)
    (tmp_path / "kor.txt").write_text("die katze lief\tthe cat ran\tby\nkein hund\tno dog\tby\n")
    ((pair, found),) = hand_alignment.aligned_pairs(tmp_path / "kor.txt").items()
    assert (pair, found.possible) == (("the cat ran", "die katze lief"), {(0, 1)})

    def align(command, check):
        options = dict(zip(command[1::2], command[2::2], strict=True))
        sides = [
            [line.split() for line in (tmp_path / options[name]).read_text().splitlines()] for name in ("-s", "-t")
        ]
        lines = (" ".join(f"{i}-{len(to) - 1}" for i in range(len(of))) for of, to in zip(*sides, strict=True))
        last = "".join(f"{line}\n" for line in lines)
        for name in ("-f", "-r"):
            (tmp_path / options[name]).write_text(last)

    monkeypatch.setattr(hand_alignment.subprocess, "run", align)
    hand_alignment.main(translator_folder, tmp_path / "kor.txt", eflomal=True)
    first, chosen, *rules, erasure, forward, _, _ = capsys.readouterr().out.splitlines()
    assert first == "1 pairs"
    assert chosen.split("  ")[1].startswith("the rule of the translator: the last layer but one (or the only")
    assert len(rules) == 1
    assert erasure.split("  ")[1] == "the loss of probability without each source word, not attention"
    assert forward == "AER 66.7  eflomal, forward"  # 0-2 1-2 2-2, and only 2-2 is right: 1 - (1 + 1) / (3 + 3)


def test_expected_and_found_chrf_are_printed_for_groups_of_lines(tmp_path, capsys, translator, translator_folder):
    sources = ["the cat sat", "no dog ran", "a dog sat on a mat", "the dog and the cat ran", "no cat on a mat"] * 4
    targets = ["die katze sass", "kein hund lief", "ein hund sass auf", "der hund und die katze", "kein"] * 4
    for name, lines in (("a", sources), ("b", targets)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    folder = translator.calibrated(sources, targets).save(tmp_path / "calibrated")
    calibration.main(folder, tmp_path / "a", tmp_path / "b")
    first, *groups = capsys.readouterr().out.splitlines()
    assert first.startswith("20 lines; Spearman correlation of score and chrF ")
    assert len(groups) == 5
    means = [[float(part.split()[-1]) for part in line.split(": ")[1].split(", ")] for line in groups]
    # On the texts of the calibration, the expected chrF has the mean of the chrF, except for interpolation
    assert sum(expected for expected, _ in means) == pytest.approx(sum(chrf for _, chrf in means), rel=0.1)
    assert refusal(InputError, calibration.main, translator_folder, tmp_path / "a", tmp_path / "b") == (
        f"{translator_folder} has no calibration; finish its training with regard train."
    )


def test_the_processor_is_named_with_its_family_and_model(tmp_path, monkeypatch):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\nflags\t: avx2\n\n")
    monkeypatch.setattr(machine, "Path", lambda path: cpuinfo)
    assert machine.processor() == "AMD EPYC (cpu family 25, model 17)"
    cpuinfo.write_text("processor\t: 0\nBogoMIPS\t: 48\n")  # an Arm processor
    assert machine.processor() == machine.platform.machine()
