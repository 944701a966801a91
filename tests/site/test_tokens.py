"""Tests of a site's tokens: they are those of the model's own tokenizer, for texts of many scripts."""

import copy
from pathlib import Path

import pytest
from causal_models import GPT2, LLAMA, byte_tokenizer
from front_code import in_node
from site_texts import TEXTS, random_texts

from regard.site.tokenizer import tokenizer_tables
from regard.tracing.model_loading import LoadedModel
from regard.tracing.tokens.readable_tokens import readable_tokens
from regard.views.page.data import token_records
from regard.visible_text import escape_controls

ENCODE = """
import { escaped, SPACES } from "./tokens/shown-tokens";
import { Tokenizer } from "./tokens/tokenizer";

function answer({ tables, texts }) {
  const tokenizer = new Tokenizer(tables);
  return texts.map((text) => {
    const pieces = tokenizer.encode([...text]);
    const ids = pieces.map(({ id }) => id);
    return { text: escaped(text, SPACES), ids, tokens: tokenizer.tokens(pieces, [...text]) };
  });
}
"""

HARD = [
    "  a   b\n\n\nc  \n d\t\te",
    "it's IT'S don'T we'll you\u017fe '\u017f",
    "12345 6789 ٣٤٥ Ⅷ½²",
    "<|endoftext|>a <|endoftext|>",
    *("a\x85b \x85c\ufeffd \ufeffe", "\u088f\ua7cf1 \U00033479x \U00011de01 x", "!", "뱀"),
]
"""Texts that byte-level tokenizers split at places that are easy to miss."""


@pytest.mark.parametrize("kind", ["words", "GPT-2", "Llama"])
def test_tokens_are_those_of_the_model_s_own_tokenizer(kind: str, minilm: LoadedModel, tmp_path: Path) -> None:
    if kind == "words":
        tokenizer = copy.deepcopy(minilm.tokenizer)
    else:
        tokenizer = byte_tokenizer(GPT2) if kind == "GPT-2" else byte_tokenizer(LLAMA, begins=True)
    texts = [*TEXTS, *HARD, *random_texts()]
    given = {"tables": tokenizer_tables(tokenizer, len(tokenizer)), "texts": texts}
    for text, found in zip(texts, in_node(ENCODE, given, tmp_path), strict=True):
        encoded = tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
        assert found["ids"] == encoded["input_ids"][0].tolist(), ascii(text)
        assert found["tokens"] == token_records(readable_tokens(tokenizer, encoded, text)), ascii(text)
        assert found["text"] == escape_controls(text, keep=" \t\n\r\x0b\x0c")
