"""The tables with which a page splits a text into tokens exactly as a tokenizer does, in any browser.

`front/src/site/tokens/tokenizer.ts` reads them. There are two kinds of tokenizers: WordPiece, and byte pairs.
"""

import json
from typing import Any

from regard.errors import InputError
from regard.site.byte_pairs import byte_pair_tables
from regard.site.wordpiece import wordpiece_tables
from regard.tracing.tokens.readable_tokens import pieces_of


def tokenizer_tables(tokenizer: Any, n_ids: int) -> dict[str, Any]:
    """Return the tables of a tokenizer as JSON; `Vocabulary` in front/src/site/tokens/tokenizer.ts describes them.

    `n_ids` is the number of ids of the model, which may be larger than that of the tokenizer.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    name = type(tokenizer).__name__
    description: dict[str, Any] = {"model": {}, "added_tokens": []} if backend is None else json.loads(backend.to_str())
    # for a tokenizer without a backend, `wordpiece_tables` finds no part in the empty description, and refuses it
    has_byte_pairs = description["model"].get("type") == "BPE"
    check_added_tokens(description, name)
    tables = byte_pair_tables(description, name) if has_byte_pairs else wordpiece_tables(tokenizer, description)
    # the token ids of the text "a", with special tokens around them (`ids`) and without (`inner`)
    ids, inner = tokenizer("a")["input_ids"], tokenizer("a", add_special_tokens=False)["input_ids"]
    start = next(i for i in range(len(ids)) if ids[i : i + len(inner)] == inner)
    return {
        "pieces": pieces_of(tokenizer, list(range(max(n_ids, len(tokenizer)))), as_target=True),
        "unknown": tokenizer.unk_token_id,
        "before": ids[:start],
        "after": ids[start + len(inner) :],
        "special": sorted(set(tokenizer.all_special_ids) - {tokenizer.mask_token_id}),
        "whole": {token["content"]: token["id"] for token in description["added_tokens"]},
        **tables,
    }


def check_added_tokens(description: dict[str, Any], name: str) -> None:
    """Raise InputError if the tokenizer finds an added token, such as [MASK], only between certain letters.

    The page of a site finds added tokens anywhere in a text. `description` is the dict that tokenizer.json would hold.
    """
    for token in description["added_tokens"]:
        # a normalised token is looked for in the normalised text, not in the text as it was typed
        is_normalised = token["normalized"] and description["normalizer"]
        if token["single_word"] or token["lstrip"] or token["rstrip"] or is_normalised:
            raise InputError(
                f"{name} looks at the letters around {token['content']!r}, which a site does not; choose a model such "
                "as MiniLM or GPT-2."
            )
