"""Tests of writing a site: the ONNX graph against the model, the tables of the tokenizer, every refusal."""

import io
import json
import math
import tarfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path
from shutil import copytree

import answers
import onnxruntime
import pytest
import sentencepiece
import torch
from refusals import refusal
from tokenizers import pre_tokenizers
from transformers import AutoTokenizer

import regard
from regard import InputError
from regard.export.parity import Parity
from regard.recurrent.config import RecurrentConfig
from regard.recurrent.model import Recurrent
from regard.site import check as checking
from regard.site import folder as folders
from regard.site import text_model as writing
from regard.site import translator_model as translating
from regard.site.check import Difference, check_graph
from regard.site.exported import Exported
from regard.site.folder import check_empty, write_site
from regard.site.runtime import FILE, INCLUDED, SHA256, VERSION, compressed_runtime, read_given
from regard.site.spm_check import check_vocabulary
from regard.site.tokenizer import tokenizer_tables
from regard.site.translator_graphs import translator_graphs
from regard.text.piece_table import bytes_field, varint_bytes
from regard.tracing.model_loading import LoadedModel, load

FRONT = Path(__file__).parents[2] / "front"


@pytest.fixture(scope="module")
def graph(small: Path, served) -> tuple[LoadedModel, Path]:
    """The small model, and the graph in its site."""
    return load(str(small)), served.folder / "model.onnx"


def test_the_graph_gives_the_model_s_queries_keys_and_values(graph):
    loaded, path = graph
    text = "The river runs."
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    ids = loaded.tokenizer(text, return_tensors="np")["input_ids"]
    unchanged = {
        "cut": torch.zeros(ids.size, ids.size, dtype=torch.bool).numpy(),
        "changed": torch.zeros(2, 3, dtype=torch.bool).numpy(),
        "temperature": torch.ones(2, 3).numpy(),
    }
    given = session.run(None, {"ids": ids, **unchanged})
    outputs = dict(zip([output.name for output in session.get_outputs()], given, strict=True))
    trace = regard.trace(loaded.model, text, tokenizer=loaded.tokenizer)
    torch.testing.assert_close(torch.from_numpy(outputs["output"]), trace.output)
    for layer, step in trace.attended["encoder"].items():
        for part in ("query", "key", "value"):
            exact = getattr(step.pattern, part)
            torch.testing.assert_close(torch.from_numpy(outputs[f"encoder layer {layer} {part}"]), exact)
    assert loaded.model.config._attn_implementation == "sdpa"  # as it was before


def test_the_check_sees_a_model_that_attends_otherwise(graph):
    loaded, path = graph
    found = check_graph(path, loaded, 64)
    assert 0 < found.weights < 1e-5
    assert 0 < found.others < 1e-5
    with torch.no_grad():
        loaded.model.encoder.layer[1].attention.self.query.bias[0] += 0.01
        text = refusal(InputError, check_graph, path, loaded, 64)
        loaded.model.encoder.layer[1].attention.self.query.bias[0] -= 0.01
    weights, others = (float(word) for word in text.split() if word.replace("e-", "").replace(".", "").isdecimal())
    assert text == (
        "small as an ONNX graph does not attend as the model itself does, so no site was written: they differ by up to "
        f"{Difference(weights, others)}."
    )
    assert weights > 1e-4
    assert others > 1e-4


def test_a_difference_that_is_not_a_number_is_too_large():
    differences = [Difference(0.0, 0.0), Difference(0.0, math.nan)]
    assert not Difference.largest(differences).holds
    assert not Difference.largest(differences[::-1]).holds
    assert Difference.largest([]) == Difference(0.0, 0.0)


def test_changes_alone_are_compared_too(graph, monkeypatch):
    loaded, path = graph
    monkeypatch.setattr(checking, "Sharpen", lambda head, temperature: regard.Sharpen(head, 0.9))
    assert "does not attend as the model itself does" in refusal(InputError, check_graph, path, loaded, 64)


def test_the_tables_of_letters_say_what_the_tokenizer_does(minilm: LoadedModel, served):
    tables = json.loads((served.folder / "tokenizer.json").read_text(encoding="utf-8"))
    backend = minilm.tokenizer.backend_tokenizer
    inside = {name: {c for a, b in tables[name] for c in range(a, b + 1)} for name in ("dropped", "spaced", "apart")}
    for letter in "aÉñßİ漢豈뱀ᄇ!…«、\x00\u200b\u0301\ufeff１Ⅷ":
        code = ord(letter)
        normal = backend.normalizer.normalize_str(letter)
        assert (code in inside["dropped"]) == (normal == "")
        assert (code in inside["spaced"]) == (normal == f" {letter} ")
        assert (code in inside["apart"]) == (len(backend.pre_tokenizer.pre_tokenize_str(f"a{letter}a")) == 3)
    assert tables["letters"]["É"] == "e"
    assert tables["jamo"]["ᆫ"] == "ㄴ"
    assert "뱀" not in tables["letters"]
    assert tables["decomposes"]
    assert (tables["before"], tables["after"], tables["unknown"]) == ([101], [102], 100)
    assert tables["pieces"][:1] + tables["pieces"][1996:1997] == ["[PAD]", "the"]


def test_another_pre_tokenizer_is_refused(minilm: LoadedModel, tmp_path):
    minilm.tokenizer.save_pretrained(tmp_path)
    other = AutoTokenizer.from_pretrained(tmp_path)
    other.backend_tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    assert refusal(InputError, tokenizer_tables, other, 0) == (
        f"{type(other).__name__} has a pre_tokenizer of type Whitespace, and a site splits texts into tokens only as "
        "BERT's tokenizer does, whose pre_tokenizer is BertPreTokenizer, or GPT-2's; choose a model such as MiniLM or "
        "GPT-2."
    )


def test_a_folder_with_files_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    check_empty(tmp_path / "empty")
    assert refusal(InputError, write_site, tmp_path) == (
        f"{tmp_path} is not empty; name a new folder, or remove what is in it first."
    )
    (tmp_path / "file").write_text("x")
    assert refusal(InputError, write_site, tmp_path / "file") == f"{tmp_path / 'file'} is a file; name a new folder."
    assert refusal(InputError, write_site, tmp_path / "no" / "site") == (
        f"cannot write {tmp_path / 'no' / 'site'}: there is no folder {tmp_path / 'no'}; make it first or name another."
    )


def test_a_model_that_fails_its_check_leaves_nothing(carried, graph, small, tmp_path, monkeypatch):
    def broken(*arguments):
        raise InputError("it differs.")

    monkeypatch.setattr(writing, "check_graph", broken)
    monkeypatch.setattr(writing, "tokenizer_tables", lambda *arguments: {})
    monkeypatch.setattr(writing, "write_model", lambda *arguments: None)
    assert refusal(InputError, write_site, tmp_path / "site", str(small), course=False) == "it differs."
    assert list(tmp_path.iterdir()) == []


def test_a_missing_extra_is_named_in_one_command(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnxscript", None)
    assert refusal(InputError, write_site, tmp_path / "site") == (
        "this needs the package onnxscript, which is not installed; install it with "
        "pip install 'regard[export,huggingface]'."
    )


def test_the_runtime_is_taken_as_npm_delivers_it(carried, tmp_path):
    compressed = compressed_runtime()
    content = zlib.decompress(compressed)
    (tmp_path / "package" / "dist").mkdir(parents=True)
    (tmp_path / "package" / "dist" / FILE).write_bytes(content)
    packed = tmp_path / f"onnxruntime-web-{VERSION}.tgz"
    with tarfile.open(packed, "w") as archive:
        archive.add(tmp_path / "package" / "dist" / FILE, f"package/dist/{FILE}")
    for given in (tmp_path / "package", packed):
        assert zlib.decompress(compressed_runtime(given)) == content


def test_another_runtime_a_link_and_a_cut_archive_are_refused(tmp_path):
    nothing = refusal(InputError, compressed_runtime, tmp_path)
    assert nothing == f"{tmp_path} has no {FILE}; give the folder of npm's package onnxruntime-web."
    (tmp_path / FILE).write_bytes(b"older")
    assert refusal(InputError, compressed_runtime, tmp_path) == (
        f"{tmp_path} has another {FILE} than that of onnxruntime-web {VERSION}, with which the page was built; run "
        f"npm pack onnxruntime-web@{VERSION} and give the file that it writes."
    )
    advice = f"; give the file that npm pack onnxruntime-web@{VERSION} writes."
    absent = tmp_path / "absent.tgz"
    assert refusal(InputError, compressed_runtime, absent) == (
        f"cannot read {FILE} from {absent}: no such file or directory{advice}"
    )
    empty = tmp_path / "empty.tgz"
    with tarfile.open(empty, "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("package/other"), io.BytesIO())
    assert refusal(InputError, compressed_runtime, empty) == (
        f"cannot read {FILE} from {empty}: \"filename 'package/dist/{FILE}' not found\"{advice}"
    )
    linked = tmp_path / "linked.tgz"
    with tarfile.open(linked, "w:gz") as archive:
        folder = tarfile.TarInfo(f"package/dist/{FILE}")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
    assert refusal(InputError, compressed_runtime, linked) == (
        f"cannot read {FILE} from {linked}: '{FILE} is no file in it'{advice}"
    )
    linked.write_bytes(linked.read_bytes()[:-30])
    assert refusal(InputError, compressed_runtime, linked) == (
        f"cannot read {FILE} from {linked}: Compressed file ended before the end-of-stream marker was reached{advice}"
    )


def test_a_file_far_larger_than_the_runtime_is_not_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.site.runtime.MOST_BYTES", 1000)
    (tmp_path / FILE).write_bytes(bytes(5000))
    assert len(read_given(tmp_path)) == 1000


def test_an_installation_without_the_runtime_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr("regard.site.runtime.INCLUDED", "built/none.deflate")
    assert refusal(InputError, compressed_runtime) == (
        "this installation of regard has no ONNX Runtime for browsers; run "
        f"npm pack onnxruntime-web@{VERSION} and add --runtime onnxruntime-web-{VERSION}.tgz."
    )


def test_the_runtime_is_of_the_version_that_the_worker_is_built_with():
    locked = json.loads((FRONT / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    assert locked["node_modules/onnxruntime-web"]["version"] == VERSION
    assert json.loads((FRONT / "package.json").read_text())["devDependencies"]["onnxruntime-web"] == VERSION
    assert files("regard.views.page").joinpath(INCLUDED).name.endswith(".deflate")
    assert len(SHA256) == 64


def test_vocabularies_of_other_kinds_are_refused(tmp_path):
    (tmp_path / "rules.tsv").write_text("61\t62\n", encoding="utf-8")
    kinds = {
        "is a model of whole words or of letters": {"model_type": "char", "vocab_size": 13},
        "writes ▁ after a word": {"model_type": "bpe", "vocab_size": 20, "treat_whitespace_as_suffix": True},
        "replaces letters when it joins pieces to a text": {
            "model_type": "unigram",
            "vocab_size": 20,
            "denormalization_rule_tsv": str(tmp_path / "rules.tsv"),
        },
    }
    for reason, settings in kinds.items():
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.Train(
            sentence_iterator=iter(["the cat sat", "a dog ran"] * 9),
            model_writer=model,
            minloglevel=3,
            hard_vocab_limit=False,
            **settings,
        )
        assert refusal(InputError, check_vocabulary, "source.spm", model.getvalue()) == (
            f"source.spm {reason}; a site splits texts into pieces by SentencePiece's unigram and BPE models, with ▁ "
            "before a word. regard explore --translator shows this translator."
        )
    normaliser = bytes_field(3, varint_bytes(5 << 3) + varint_bytes(0))  # escape_whitespaces = false
    assert "source.spm does not write a space as ▁" in refusal(InputError, check_vocabulary, "source.spm", normaliser)


def test_a_window_that_moves_with_the_tokens_is_refused():
    config = RecurrentConfig(n_source_tokens=11, n_target_tokens=13, d_model=4, attention="local_m")
    assert refusal(InputError, translator_graphs, Recurrent(config)) == (
        'this translator has attention="local_m", whose window depends on the number of the step, which ONNX graphs do '
        'not get; train it with attention="soft", "hard" or "local_p" to export it.'
    )


def test_a_translator_whose_export_differs_leaves_nothing(carried, translator_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(translating, "write_graphs", lambda *arguments: None)
    monkeypatch.setattr(translating, "write_settings", lambda *arguments: None)
    monkeypatch.setattr(translating, "LoadedExport", lambda *arguments: None)
    parity = Parity(n_lines=2, n_same=2, difference=0.0, gap=0.0, worst="")
    monkeypatch.setattr(translating, "compare_translations", lambda *arguments: parity)
    monkeypatch.setattr(translating, "check_translator", lambda *arguments: Difference(0.25, 0.5))
    assert refusal(InputError, write_site, tmp_path / "site", translator=translator_folder, course=False) == (
        f"{translator_folder.name} as ONNX graphs does not translate as the translator does, so no site was written: "
        f"{parity}; they differ by up to {Difference(0.25, 0.5)}."
    )
    assert list(tmp_path.iterdir()) == []


def test_a_course_that_cannot_be_written_is_refused(carried, translator_folder, tmp_path, monkeypatch):
    def write_course(path, site):
        assert path.name == "learn.html"
        raise InputError("the hub cannot be reached.")

    monkeypatch.setattr(folders, "write_course", write_course)
    assert refusal(InputError, write_site, tmp_path / "site", translator=translator_folder) == (
        "cannot write the course: the hub cannot be reached. Leave the course out: --no-course, or course=False."
    )
    assert list(tmp_path.iterdir()) == []


def test_two_models_of_one_name_are_refused(handmade, tmp_path, monkeypatch):
    first = handmade("a b")
    same = Exported(kind="", first=first, files={}, max_tokens=1, difference=Difference(0.0, 0.0), report="")
    monkeypatch.setattr(folders, "load_with_lm_head", lambda name: None)
    monkeypatch.setattr(folders.Translator, "load", lambda *arguments, **settings: None)
    monkeypatch.setattr(folders, "export_text_model", lambda *arguments: same)
    monkeypatch.setattr(folders, "export_translator", lambda *arguments: same)
    assert refusal(InputError, folders.export_models, "a/en-de", Path("b/en-de"), "", tmp_path, int8=False) == (
        "the model and the translator are both named handmade; rename one of the folders, so that the page can offer "
        "both."
    )


@pytest.mark.slow
@pytest.mark.usefixtures("browser")
def test_the_benchmark_of_answers_writes_its_table(small, served, tmp_path, monkeypatch):
    monkeypatch.setattr(answers, "write_site", lambda folder, model, **settings: copytree(served.folder, folder))
    with ThreadPoolExecutor(1) as thread:  # Playwright refuses a thread in which the browser of another test runs
        thread.submit(answers.main, model=str(small), quick=True, threads=1, out=tmp_path).result()
    (row,) = json.loads((tmp_path / "answers.json").read_text())["rows"]
    assert row.pop("tokens") == 8
    assert all(milliseconds > 0 for milliseconds in row.values())
