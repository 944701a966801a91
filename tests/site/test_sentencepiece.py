"""The pieces, words and signs of a translator's texts on a site: they are Python's, for many scripts."""

import base64
import random
import unicodedata
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path

import pytest
import sentencepiece
from front_code import in_node
from site_texts import TEXTS, random_texts

from regard.site.unicode_tables import unassigned_code_points
from regard.text.cleaning import clean_text
from regard.text.foreign_vocabulary import vocabulary_from_model, vocabulary_from_table
from regard.text.piece_table import UNUSED, pieces_of, with_pieces
from regard.text.placeholders import Placeholders, with_items, with_signs
from regard.text.vocabulary import EOS, UNK, Vocabulary
from regard.translation.pieces import UNKNOWN, text_of_pieces, words_and_pieces

LINES = [line for text in TEXTS[:18] for line in (text, text[::2], text.lower())]
"""The lines on which the vocabularies are trained: many scripts, so that only some letters have a piece."""

DECOMPOSED = ["뱀은", "한국어 글", "Ångström naïve", "e\u0327\u0301", "각\u11a8"]
"""Texts whose letters are composed, or put into another order, before they are cut into pieces."""

LIKE_PIECES = ["<s> </s> <unk> ▁ <2de> <synthetic>", ">>fra<< the  snake", "𠀀𪜀 งู 뱀 뱀은"]
"""Texts that look like special pieces, or have pieces of Marian's other language."""

CUT = """
import { cleaner } from "./translator/clean";
import { Vocabulary } from "./translator/sentencepiece";
import { textOfPieces, wordsAndPieces } from "./translator/words";

function answer({ model, texts, ids, pieces, unassigned }) {
  const [vocabulary, clean] = [new Vocabulary(Uint8Array.from(Buffer.from(model, "base64"))), cleaner(unassigned)];
  return {
    found: texts.map((text) => {
      const cleaned = clean(text);
      const pieces = vocabulary.encode(cleaned);
      const words = wordsAndPieces(text, pieces.map((one) => one.text), clean);
      return { cleaned, ids: pieces.map((one) => one.id), pieces: pieces.map((one) => one.text), ...words };
    }),
    decoded: ids.map((some) => vocabulary.decode(some)),
    joined: pieces.map((some) => textOfPieces(some)),
  };
}
"""
"""Cuts texts into pieces, joins pieces, and divides texts into words."""


def trained(**settings: object) -> bytes:
    """Return the bytes of a SentencePiece model trained on LINES, as if by another program than regard."""
    model = BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(LINES), model_writer=model, minloglevel=3, hard_vocab_limit=False, **settings
    )
    return model.getvalue()


def own(tmp_path: Path, **settings: object) -> Vocabulary:
    """A SentencePiece model of another program as a vocabulary of regard."""
    path = tmp_path / "own.model"
    path.write_bytes(trained(**settings))
    return vocabulary_from_model(path)


def marian(tmp_path: Path) -> Vocabulary:
    """A vocabulary from a unigram model and a table that also has a language code and pieces of another language."""
    path = tmp_path / "source.spm"
    path.write_bytes(trained(model_type="unigram", vocab_size=300, character_coverage=0.98))
    kept = [piece.text for piece in pieces_of(path.read_bytes())[3:] if piece.text != "▁the"]
    foreign = [text for text in ("뱀", "𠀀𪜀", "ハン", "▁뱀은", "งู", "ب") if text not in kept]
    return vocabulary_from_table(path, [*kept, ">>fra<<", *foreign])


def with_unused_merges(tmp_path: Path) -> Vocabulary:
    """Return a BPE vocabulary with unused pieces, which exist only for merges and which SentencePiece splits again."""
    vocabulary = Vocabulary.train(LINES, 350)
    table = pieces_of(vocabulary.model)
    merged = [piece for piece in table[EOS + 1 :] if len(piece.text) > 1]
    steps = {piece.text for piece in merged[::3]}
    return Vocabulary(
        with_pieces(
            vocabulary.model,
            [type(piece)(piece.text, piece.score, UNUSED) if piece.text in steps else piece for piece in table],
        )
    )


VOCABULARIES: dict[str, Callable[[Path], Vocabulary]] = {
    "regard's own": lambda _: Vocabulary.train(LINES, 400, coverage=0.98),
    "with bytes": lambda _: Vocabulary.train(LINES, 500, coverage=0.98, byte_fallback=True),
    "with tags": lambda _: Vocabulary.train(LINES, 380, tags=["<2de>", "<synthetic>"], coverage=0.98),
    "BPE with SentencePiece's normalisation": lambda path: own(path, model_type="bpe", vocab_size=400),
    "unigram": lambda path: own(path, model_type="unigram", vocab_size=350, character_coverage=0.98),
    "unigram with bytes, lower case": lambda path: own(
        path, model_type="unigram", vocab_size=600, byte_fallback=True, normalization_rule_name="nmt_nfkc_cf"
    ),
    "unigram with whole pieces": lambda path: own(
        path, model_type="unigram", vocab_size=350, user_defined_symbols=["snake", "독이", "👍", "and a"]
    ),
    "spaces as they are": lambda path: own(
        path, model_type="unigram", vocab_size=350, remove_extra_whitespaces=False, add_dummy_prefix=False
    ),
    "Marian's": marian,
    "with unused merges": with_unused_merges,
}


def some_pieces(vocabulary: Vocabulary, chance: random.Random) -> Sequence[list[int]]:
    """Return lists of random ids without the unknown piece, with many byte pieces if the vocabulary has them."""
    ids = [token for token in range(len(vocabulary)) if token != UNK]
    byte_ids = [token for token in ids if vocabulary.processor.IsByte(token)]
    texts = [chance.choices(ids, k=chance.randint(1, 9)) for _ in range(100)]
    letters = [[byte_ids[byte] for byte in "뱀𠀀é".encode()] for _ in range(20) if byte_ids]
    return [*texts, *([*one[: chance.randint(1, 9)], *chance.choices(ids, k=2)] for one in letters)]


@pytest.mark.parametrize("name", VOCABULARIES)
def test_every_text_has_the_pieces_and_the_words_of_python(tmp_path: Path, name: str) -> None:
    vocabulary = VOCABULARIES[name](tmp_path)
    texts = [*TEXTS, *DECOMPOSED, *LIKE_PIECES, *random_texts(), "", " "]
    ids = some_pieces(vocabulary, random.Random(1))
    pieces = [[UNKNOWN, *vocabulary.pieces(some)] for some in ids]
    given = {
        "model": base64.b64encode(vocabulary.model).decode(),
        "texts": texts,
        "ids": ids,
        "pieces": pieces,
        "unassigned": unassigned_code_points(),
    }
    answer = in_node(CUT, given, tmp_path)
    for text, found in zip(texts, answer["found"], strict=True):
        surfaces = vocabulary.surfaces(text)
        assert found["cleaned"] == clean_text(text), ascii(text)
        assert (found["ids"], found["pieces"]) == (vocabulary.encode(text), surfaces), ascii(text)
        words, word_of = words_and_pieces(text, surfaces)
        assert (found["words"], found["wordOf"]) == ([*words], [*word_of]), ascii(text)
    assert answer["decoded"] == [vocabulary.decode(some) for some in ids]
    assert answer["joined"] == [text_of_pieces(some) for some in pieces]


SIGN = """
import { signsOf, withItems, withSigns } from "./translator/placeholders";

function answer({ texts, latin }) {
  return texts.map((text) => {
    const signs = signsOf(text, latin);
    const signed = withSigns(text, signs);
    return [[...signs], signed, withItems(`${signed} ⟐⟡⟢`, signs)];
  });
}
"""
"""Replaces names and numbers by signs, and signs by names and numbers."""

WITH_ITEMS = [
    "Kotanu는 1,051원과 150만원을 냈다.",
    "톰은 New York에서 tom@example.org로 123.45 kg, ⟡와 12를 보냈다; 1234 억",
    "https://example.org/a?b=1, www.x.kr/다. Tom's tomcat is Tom, O'Neil & Søn-B2B 2024-05-06 99 ١٢٣ Ⅷ ２０２４年",
    "<2de> 뱀 뱀독 AT&T. ⟢⟐",
    "https://ko.example/위키/한국_역사?쪽=2월_1일을 https://a.example/에는 www.한글.example/Café, http://ja.example/日本",
]
"""Texts with names, numbers, addresses and signs."""


@pytest.mark.parametrize("latin", [True, False])
def test_signs_replace_the_names_and_numbers_that_they_replace_in_python(tmp_path: Path, latin: bool) -> None:
    texts = [clean_text(text) for text in (*WITH_ITEMS, *TEXTS, *random_texts())]
    # a newer node knows letters that Python's version of Unicode does not define
    texts = [text for text in texts if all(unicodedata.category(letter) != "Cn" for letter in text)]
    assert len(texts) > 100
    found = in_node(SIGN, {"texts": texts, "latin": latin}, tmp_path)
    for text, (shown, signed, back) in zip(texts, found, strict=True):
        signs = Placeholders(latin=latin).signs(text)
        assert shown == [list(pair) for pair in signs.items()], ascii(text)
        assert signed == with_signs(text, signs), ascii(text)
        assert back == with_items(f"{signed} ⟐⟡⟢", signs), ascii(text)
