"""From texts to translations: order, batches, prefixes, unknown characters, texts that are too long, attention."""

import base64
import json
import re
from html import escape, unescape

import pytest
import torch
from refusals import refusal
from torch.testing import assert_close
from trained_translator import PAIRS, new_transformer

from regard import InputError
from regard.recurrent.config import RecurrentConfig
from regard.recurrent.model import Recurrent
from regard.text.vocabulary import BOS, EOS, UNK, Vocabulary
from regard.translation.alignment_rule import AlignmentRule
from regard.translation.search.beam import Beam
from regard.translation.search.greedy import Greedy
from regard.translation.search.sampling import Sample
from regard.translation.translator import Translator
from regard.views.alignment import alignment_figure
from regard.views.picture.canvas import rendered

TEXTS = ["the cat sat on a mat", "", "no dog", "a dog ran to the cat and sat", "  ", "I am a student", "no dog"]


def same(a, b):
    assert [one.text for one in a] == [one.text for one in b]
    assert [one.score for one in a] == pytest.approx([one.score for one in b], abs=1e-4)


@pytest.mark.parametrize("search", [Greedy(), Beam(4, n_best=2), Sample(temperature=3.0, seed=1)], ids=repr)
def test_batches_change_nothing_and_order_is_kept(translator, search):
    together = translator.translate(TEXTS, search=search)
    assert [one.source for one in together] == TEXTS
    same(together, translator.translate(TEXTS, search=search, batch_tokens=1))
    same(together[5:], translator.translate(TEXTS[5:], search=search, first=6))


def test_a_text_without_a_word_has_an_empty_translation(translator):
    for text in ("", "  ", "\t"):
        (one,) = translator.translate([text], prefix="ein")
        assert (one.text, one.score, one.log_probability, one.candidates[0].text) == ("", 0.0, 0.0, "")
        assert one.alignment.pairs == ()
        assert one.alignment.weights.shape == (0, 0)
    assert translator.translate([]) == []


def test_a_translation_has_no_space_at_its_ends(translator, monkeypatch):
    monkeypatch.setattr(Vocabulary, "decode", lambda self, ids: " die katze ")
    assert translator.translate(["the cat"])[0].text == "die katze"


def test_log_probability_is_that_of_the_text(translator):
    (best,) = translator.translate(TEXTS[:1], search=Beam(3, n_best=3))
    scores = [one.score for one in best.candidates]
    assert (len(scores), best.score, best.text) == (3, max(scores), best.candidates[0].text)
    assert scores == sorted(scores, reverse=True)
    for one in best.candidates:
        target = torch.tensor([[BOS, *one.target_ids]])
        logits = translator.model(torch.tensor([one.source_ids]), torch.tensor([len(one.source_ids)]), target).logits
        known = logits[0].detach().double().log_softmax(dim=-1)
        total = sum(float(known[index, token]) for index, token in enumerate([*one.target_ids, EOS]))
        assert one.log_probability == pytest.approx(total, abs=1e-4)
        assert one.score == pytest.approx(total / ((5 + len(one.target_ids) + 1) / 6), abs=1e-4)
        if UNK not in one.target_ids:
            assert one.text == translator.target_vocabulary.decode(list(one.target_ids))


def test_any_translation_can_be_given(translator):
    sources, targets = ["the cat sat", "no dog", "a ẞ mat", ""], ["ein  Hund", "ẞẞ die katze", "", "nichts"]
    together = translator.score(sources, targets)
    for source, target, one in zip(sources, targets, together, strict=True):
        (alone,) = translator.score([source], [target], batch_tokens=1)
        assert alone.log_probability == pytest.approx(one.log_probability, abs=1e-4)
        assert (one.source, one.text, one.score) == (source, target, one.log_probability)
        assert len(one.target_pieces) == len(one.target_ids)
        assert tuple(one.alignment.target_words) == tuple(target.split())
        given = torch.tensor([[BOS, *translator.target_vocabulary.encode(target)]])
        read = torch.tensor([[*translator.source_vocabulary.encode(source), EOS]])
        known = translator.model(read, torch.tensor([read.shape[1]]), given).logits[0].detach().double().log_softmax(-1)
        total = sum(float(known[index, token]) for index, token in enumerate([*given[0, 1:].tolist(), EOS]))
        assert one.log_probability == pytest.approx(total, abs=1e-4)


def test_a_device_without_float64_scores_in_float32(translator, monkeypatch):
    widened = []

    def widest_type(device):
        widened.append(device)
        return torch.float32

    before = translator.score(["no dog"], ["ein Hund"])[0].score
    monkeypatch.setattr("regard.translation.forced_decoding.widest_type", widest_type)
    assert translator.score(["no dog"], ["ein Hund"])[0].score == pytest.approx(before, abs=1e-4)
    assert widened == [torch.device("cpu")]


def test_given_translations_that_do_not_fit_are_refused(translator):
    assert refusal(ValueError, translator.score, ["no dog", "the cat"], ["a"]) == (
        "got 1 targets for 2 texts; give one for each."
    )
    limit = translator.model.config.max_tokens - 1
    message = refusal(InputError, translator.score, ["no dog", "a"], ["a", "katze " * (limit + 1)], first=5)
    n_pieces = len(translator.target_vocabulary.encode("katze " * (limit + 1)))
    assert message == (
        f"the target of line 6 has {n_pieces:,} pieces and the translator writes at most {limit:,}; shorten it, or "
        "read only its beginning with truncate=True."
    )


def test_of_a_given_translation_that_is_too_long_the_beginning_is_scored(translator):
    limit = translator.model.config.max_tokens - 1
    target = "die katze sass " * limit
    (one,) = translator.score(["the cat"], [target], truncate=True)
    ids = translator.target_vocabulary.encode(target)[:limit]
    assert (one.text, one.target_ids, one.cut, len(one.target_pieces)) == (target, tuple(ids), True, limit)
    logits = translator.model(
        torch.tensor([one.source_ids]), torch.tensor([len(one.source_ids)]), torch.tensor([[BOS, *ids]])
    ).logits[0]
    expected = logits.log_softmax(-1).gather(1, torch.tensor([*ids, EOS])[:, None]).sum().item()
    assert one.log_probability == pytest.approx(expected, abs=1e-4)
    assert one.alignment.target_words == tuple(target.split())
    (whole,) = translator.score(["the cat"], ["die katze"], truncate=True)
    assert (whole.cut, whole.text) == (False, "die katze")


def test_a_translation_begins_with_the_prefix_of_all_or_its_own(translator):
    for one in translator.translate(TEXTS[2:4], prefix="ein hu"):
        assert one.text.startswith("ein hu")
    each = ["ein", "", "die katze"]
    texts = ["no dog", "no dog", "the cat"]
    for one, prefix in zip(translator.translate(texts, prefix=each), each, strict=True):
        assert one.text.startswith(prefix)
    message = "got 1 prefixes for 3 texts; give one for all, or one for each."
    assert refusal(ValueError, translator.translate, texts, prefix=["ein"]) == message


@pytest.mark.usefixtures("without_type_checks")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: t.translate("no dog"), "give a list with the text of each line; got 'no dog'."),
        (lambda t: t.translate(["no dog", None]), "the text of line 2 is None; it must be a str."),
        (lambda t: t.translate(None), "give a list with the text of each line; got None."),
        (lambda t: t.translate(iter(["no dog"])), "give a list with the text of each line; got a list_iterator."),
        (lambda t: t.score("no dog", ["ein"]), "give a list with the text of each line; got 'no dog'."),
        (lambda t: t.score(["no dog"], "ein"), "give a list with the target of each line; got 'ein'."),
        (lambda t: t.translate([b"no dog"], first=7), "the text of line 7 is a bytes; it must be a str."),
        (lambda t: t.translate(["a", "a"], prefix=["ein", 5]), "the prefix of line 2 is an int; it must be a str."),
        (lambda t: t.score([None], ["ein"]), "the text of line 1 is None; it must be a str."),
        (lambda t: t.score(["a"], [None]), "the target of line 1 is None; it must be a str."),
        (lambda t: t.translate(["a"], search="x"), "search is a str; it takes an object such as Beam()."),
        (lambda t: t.translate(["a"], search=Beam), "search is the class Beam; it takes an object such as Beam()."),
    ],
)
def test_what_is_no_text_and_no_search_is_refused(translator, call, message):
    assert refusal(TypeError, call, translator) == message


def test_a_text_that_is_too_long_is_refused_or_truncated(translator):
    long = "no dog " * 30
    n = len(translator.source_vocabulary.encode(long))
    assert refusal(InputError, translator.translate, ["no dog", long], first=41) == (
        f"line 42 has {n} pieces and the translator reads at most 30; "
        "divide it, or read only its beginning with truncate=True."
    )
    (one,) = translator.translate([long], truncate=True)
    assert len(one.source_ids) == 31
    assert one.left_out == n - 30
    assert len(one.alignment.source_words) == 60
    message = refusal(InputError, translator.translate, ["no dog"], prefix="ein hund " * 20)
    n = len(translator.target_vocabulary.encode("ein hund " * 20))
    assert message == (f"the prefix of line 1 has {n} pieces and the translator writes at most 30; shorten it.")


def test_dropout_is_off_while_it_translates_and_on_again_after(vocabularies):
    source, target = vocabularies
    model = new_transformer(source, target, dropout=0.5).train()
    translator = Translator(model=model, source_vocabulary=source, target_vocabulary=target)
    same(translator.translate(TEXTS[:1]), translator.translate(TEXTS[:1]))
    assert all(module.training for module in model.modules())


# What it looked at


def test_alignment_is_that_of_the_text_that_won(translator):
    """By hand from one forced decoding: the mean over the heads of the last layer but one."""
    translations = translator.translate(TEXTS, search=Beam(5))
    for one, alignment in zip(translations, translator.align(translations, batch_tokens=40), strict=True):
        if not one.text:
            continue
        source, target = torch.tensor([one.source_ids]), torch.tensor([[BOS, *one.target_ids]])
        cross = translator.model(source, torch.tensor([source.shape[1]]), target).cross
        weights = cross[-2].dense()[0].mean(dim=0).detach()
        assert_close(alignment.piece_weights, weights, rtol=1e-4, atol=1e-5)
        assert_close(one.alignment.piece_weights, alignment.piece_weights, rtol=1e-4, atol=1e-5)
        assert alignment.source_words == tuple(one.source.split())
        assert alignment.target_words == tuple(one.text.split())


def test_an_alignment_by_another_layer_on_request(translator):
    translations = translator.translate(TEXTS[:1])
    layers = [translator.align(translations, AlignmentRule(layer=layer))[0].piece_weights for layer in range(3)]
    assert_close(layers[1], translations[0].alignment.piece_weights)
    assert not torch.allclose(layers[0], layers[1])
    message = "layer=3 does not exist; the model has 3 layers, counted from 0."
    assert refusal(ValueError, translator.align, translations, AlignmentRule(layer=3)) == message


def test_a_translation_as_a_picture_and_as_a_page(translator, tmp_path):
    (one,) = translator.translate(TEXTS[:1])
    assert one.figure(tmp_path / "cat.png").read_bytes().startswith(b"\x89PNG")
    assert one.figure(tmp_path / "cat.svg").read_text().startswith("<?xml")
    page = one.html(tmp_path / "cat.html").read_text()
    assert page.lower().startswith("<!doctype html>")
    shown = one._repr_html_()  # in a notebook
    assert f'srcdoc="{escape(page)}"' in shown
    (named, first), (other, _) = re.findall(r'<img alt="(.*?)" src="data:image/png;base64,(.*?)"', shown)
    aligned = one.page_record()["candidates"][0]
    words = one.alignment.source_words, one.alignment.target_words
    drawn = alignment_figure(*words, torch.tensor(aligned["weights"]), one.text)
    assert base64.b64decode(first) == rendered(drawn)
    assert unescape(named) == f"word alignment of {one.source!r} and {one.text!r}"
    assert unescape(other) == repr(one.page_trace)
    assert one.alignment._repr_png_().startswith(b"\x89PNG")
    assert "cat.gif" in refusal(InputError, one.figure, tmp_path / "cat.gif")


def test_a_notebook_shows_a_list_of_translations_as_a_table(translator):
    texts = ["no dog", "<b> & the cat", ""] * 40
    found = translator.translate(texts)
    rows = re.findall("<tr>(.*?)</tr>", found._repr_html_())
    cells = [[unescape(cell) for cell in re.findall("<td [^>]*>(.*?)</td>", row)] for row in rows]
    assert [row[:2] for row in cells[1:101]] == [[one.source, one.text] for one in found[:100]]
    assert cells[1][2:] == ["-", "; ".join(found[0].unlike)]
    assert cells[101:] == [["… and 20 more", "", "", ""]]
    assert translator.score(texts[:1], ["ein"])._repr_html_().count("<tr>") == 2


def test_the_trace_of_a_translation(translator, capsys):
    (one,) = translator.translate(TEXTS[:1])
    trace = one.trace
    assert trace.kinds == ("encoder", "decoder", "cross")
    assert len(trace.source) == len(one.source_ids)
    assert [token.piece for token in trace.target[1:]] == list(one.target_pieces)
    assert trace.target[0].special
    assert trace.source[-1].special
    assert_close(trace.cross[1].dense()[0].mean(dim=0), one.alignment.piece_weights)
    assert not trace.decoder[0].dense().triu(1).any()  # no token attends to a later one
    assert trace.check().max_error < 1e-5
    trace.show(head="cross L1H0")
    assert "cross" in capsys.readouterr().out


def test_a_record_is_json_and_has_it_all(translator):
    (one,) = translator.translate(TEXTS[:1], search=Beam(3, n_best=2))
    record = json.loads(json.dumps(one.record()))
    assert " ".join(record) == (
        "source text score log_probability mean_log_probability expected_chrf unknown missing parts untranslated "
        "unlike source_words target_words alignment weights pieces candidates"
    )
    shape = len(record["target_words"]), len(record["source_words"])
    assert (len(record["weights"]), len(record["weights"][0])) == shape
    assert [len(candidate) for candidate in record["candidates"]] == [5, 5]
    assert record["alignment"] == [list(pair) for pair in sorted(one.alignment.pairs)]
    assert_close(torch.tensor(record["pieces"]["weights"]), one.alignment.piece_weights, rtol=0, atol=1e-6)


# What it does not know


def unknown_pieces(ids, pieces):
    return [piece for token, piece in zip(ids, pieces, strict=True) if token == UNK]


def test_unknown_characters_are_named(translator):
    one, two = translator.translate(["the 漢字 cat ẞ", "the cat"])
    assert set(one.unknown) == {"漢", "字", "ẞ"}
    assert two.unknown == ()
    assert unknown_pieces(one.source_ids, one.source_pieces) == ["漢字", "ẞ"]
    assert [token.text for token in one.trace.source if token.text.startswith("[UNK")] == ["[UNK:漢字]", "[UNK:ẞ]"]


@pytest.mark.parametrize(
    ("text", "read", "given"),
    [
        ("the 漢 cat sat on the 字 mat", ["漢"], ["漢", "o", "字"]),  # only its beginning is read
        ("the 漢\x00字 cat", ["漢字"], ["漢字"]),
        ("漢▁字", ["漢", "字"], ["漢", "字"]),
    ],
)
def test_unknown_letters_are_kept_whatever_is_left_out(translator, vocabularies, text, read, given):
    source, target = vocabularies
    model = new_transformer(source, target, max_tokens=9)
    short = Translator(model=model, source_vocabulary=source, target_vocabulary=target)
    (one,) = short.translate([text], search=Greedy(), truncate=True)
    (other,) = translator.score(["no dog"], [text])
    assert one.left_out == max(len(source.encode(text)) - 8, 0)
    assert one.source_pieces[-1] == "</s>"
    assert unknown_pieces(one.source_ids, one.source_pieces) == read
    assert unknown_pieces(other.target_ids, other.target_pieces) == given


# Folders


def test_a_translator_that_is_saved_and_loaded_translates_the_same(translator, tmp_path):
    folder = translator.save(tmp_path / "en-de")
    loaded = Translator.load(folder, device="cpu")
    same(translator.translate(TEXTS), loaded.translate(TEXTS))
    assert repr(loaded) == (
        f"Translator('en-de', Transformer, source={len(translator.source_vocabulary)}, "
        f"target={len(translator.target_vocabulary)}, device='cpu')"
    )
    assert repr(loaded.translate([""])[0]) == "Translation('' → '', log_probability=0.000)"


def test_a_recurrent_translator_does_all_of_it(vocabularies, tmp_path, capsys):
    source, target = vocabularies
    config = RecurrentConfig.preset("tiny", n_source_tokens=len(source), n_target_tokens=len(target), max_tokens=19)
    torch.manual_seed(0)
    made = Translator(model=Recurrent(config).eval(), source_vocabulary=source, target_vocabulary=target)
    loaded = Translator.load(made.save(tmp_path / "en-de"), "cpu")
    found = loaded.translate(TEXTS[:3], search=Beam(3, coverage_penalty=0.2))
    same(found, made.translate(TEXTS[:3], search=Beam(3, coverage_penalty=0.2), batch_tokens=1))
    weights = found[0].alignment.piece_weights
    assert_close(weights.sum(dim=1), torch.ones(len(found[0].target_ids) + 1))
    trace = found[0].trace
    assert trace.kinds == ("cross",)
    trace.show()
    assert "1 layer × 1 head" in capsys.readouterr().out
    assert trace.html(tmp_path / "a.html").stat().st_size > 1000


def test_a_prefix_with_letters_that_it_cannot_write_is_refused(translator):
    message = refusal(InputError, translator.translate, ["no dog", "a cat"], prefix=["ein", "ẞ Hund 漢"], first=3)
    unknown = translator.target_vocabulary.unknown("ẞ Hund 漢")
    assert {"ẞ", "漢"} <= set(unknown)
    assert message == (
        f"the prefix of line 4 has characters that the translator cannot write: {', '.join(unknown)}; leave them out."
    )


@pytest.mark.parametrize("search", [Greedy(), Beam(4)], ids=repr)
def test_a_translation_with_integers_as_weights_is_nearly_the_same(translator, translator_folder, search):
    int8 = Translator.load(translator_folder, "cpu", int8=True)
    found, expected = int8.translate([*PAIRS], search=search), translator.translate([*PAIRS], search=search)
    assert sum(one.text == other.text for one, other in zip(found, expected, strict=True)) >= len(PAIRS) - 1
    scores, expected_scores = ([one.mean_log_probability for one in side] for side in (found, expected))
    assert scores != pytest.approx(expected_scores, abs=1e-5)
    assert scores == pytest.approx(expected_scores, abs=0.05)


def test_given_translations_are_scored_and_aligned_in_float32(translator, translator_folder):
    int8 = Translator.load(translator_folder, "cpu", int8=True)
    scored, expected = (one.score([*PAIRS], [*PAIRS.values()]) for one in (int8, translator))
    same(scored, expected)
    assert [one.pairs for one in int8.align(scored)] == [one.pairs for one in translator.align(expected)]


def test_a_translator_with_integers_as_weights_is_not_saved(translator_folder, tmp_path):
    int8 = Translator.load(translator_folder, "cpu", int8=True)
    assert refusal(TypeError, int8.save, tmp_path / "saved") == (
        "only a Transformer or a Recurrent can be saved as a translator; got a Int8Transformer."
    )
