"""The tables of a tokenizer of GPT-2's kind, which divides each part of a text into tokens by byte-pair encoding.

Regular expressions divide a text into these parts. The expressions contain classes of characters: letters, numbers and
white space. A browser may have another version of Unicode than the tokenizer, so `class_of` calls the tokenizer on
every character and writes the classes as ranges.
`front/src/site/tokens/byte-pairs.ts` reads the tables.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

from regard.errors import InputError
from regard.site.unicode_tables import all_code_points, ranges
from regard.tracing.tokens.readable_tokens import GPT2_BYTES

GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""The regular expression by which GPT-2's tokenizer, and the pre-tokenizer ByteLevel of tokenizers, splits a text."""

LLAMA3_PATTERN = "|".join(
    (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    )
)
"""The regular expression by which Llama 3's tokenizer splits a text."""

JAVASCRIPT_PATTERNS = {
    GPT2_PATTERN: r"'s|'t|'re|'ve|'m|'ll|'d| ?[{L}]+| ?[{N}]+| ?[^{S}{L}{N}]+|[{S}]+(?![^{S}])|[{S}]+",
    LLAMA3_PATTERN: "|".join(
        (
            r"'(?:[sS\u017f]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD])|[^\r\n{L}{N}]?[{L}]+|[{N}]{1,3}",
            r" ?[^{S}{L}{N}]+[\r\n]*|[{S}]*[\r\n]+|[{S}]+(?![^{S}])|[{S}]+",
        )
    ),
}
"""The patterns of GPT-2 and Llama 3 in JavaScript; {L}, {N} and {S} stand for the ranges of letters, numbers and white
space. Not every browser has (?i:…), so the pattern has both cases of each letter, and ſ (\u017f), another small S."""

CHARACTERS_AT_ONCE = 2**16

UNSUPPORTED_SETTINGS = "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "dropout", "byte_fallback"
"""Settings of a BPE model in tokenizer.json: tokenizers of GPT-2's kind leave them empty, and others are refused."""

ADVICE = "a site splits texts into tokens as the tokenizers of GPT-2 and BERT do; choose a model such as GPT-2."


def byte_pair_tables(description: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the tables that `BytePairTables` in front/src/site/tokens/byte-pairs.ts describes.

    Args:
        description: the tokenizer as the dict that its tokenizer.json would hold.
        name: the name of the tokenizer's class, for messages.
    """
    model = description["model"]
    reason = unsupported_setting(description)
    if reason:
        raise InputError(f"{name} {reason}; {ADVICE}")
    return {
        "kind": "bytes",
        "bytes": GPT2_BYTES,
        "merges": [list(pair) for pair in model["merges"]],
        # True = a part of a text that is a token as a whole is not put together from smaller tokens
        "ignore_merges": bool(model.get("ignore_merges")),
        "splits": [pattern_of(splitter) for splitter in splitters(description["pre_tokenizer"])],
    }


def unsupported_setting(description: dict[str, Any]) -> str:
    """Return why a tokenizer is not of GPT-2's kind, such as "puts a space before a text"; an empty text if it is."""
    model, normaliser = description["model"], description["normalizer"]
    if normaliser:
        return f"changes the letters of a text first ({normaliser['type']})"
    for setting in UNSUPPORTED_SETTINGS:
        if model.get(setting):
            return f"has {setting} = {model[setting]!r}"
    if not set(GPT2_BYTES) <= set(model["vocab"]):
        return "has no piece for some bytes"
    pre_tokenizers = pre_tokenizers_of(description["pre_tokenizer"])
    types = [pre_tokenizer["type"] for pre_tokenizer in pre_tokenizers]
    if types.count("ByteLevel") != 1 or types[-1] != "ByteLevel":
        return "does not write the bytes of a text as GPT-2 does"
    if pre_tokenizers[-1]["add_prefix_space"]:
        return "puts a space before a text"
    for splitter in splitters(description["pre_tokenizer"]):
        if not is_supported(splitter):
            return f"splits a text by a pre_tokenizer of type {splitter['type']}"
    return ""


def pre_tokenizers_of(setting: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the pre-tokenizers in the order of their use; `setting` is "pre_tokenizer" in tokenizer.json."""
    if setting is None:
        return [{"type": "none"}]
    return list(setting["pretokenizers"]) if setting["type"] == "Sequence" else [setting]


def splitters(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the pre-tokenizers that split a text, not those that only replace its bytes."""
    return [
        pre_tokenizer
        for pre_tokenizer in pre_tokenizers_of(setting)
        if pre_tokenizer["type"] != "ByteLevel" or pre_tokenizer["use_regex"]
    ]


def is_supported(splitter: dict[str, Any]) -> bool:
    """Return whether `pattern_of` supports a pre-tokenizer of tokenizer.json."""
    if splitter["type"] == "Split":  # Isolated without invert: each match of the pattern becomes a part
        return (
            splitter["pattern"].get("Regex") in JAVASCRIPT_PATTERNS
            and splitter["behavior"] == "Isolated"
            and not splitter["invert"]
        )
    return splitter["type"] in ("ByteLevel", "Digits")


def pattern_of(splitter: dict[str, Any]) -> str:
    """Return a JavaScript regular expression that splits a text as a pre-tokenizer of tokenizer.json does."""
    if splitter["type"] == "Digits":
        return f"[{class_of('digits')}]" if splitter["individual_digits"] else f"[{class_of('digits')}]+"
    pattern = JAVASCRIPT_PATTERNS[splitter["pattern"]["Regex"] if splitter["type"] == "Split" else GPT2_PATTERN]
    for name, characters in (("L", r"\p{L}"), ("N", r"\p{N}"), ("S", r"\s")):
        pattern = pattern.replace(f"{{{name}}}", class_of(characters))
    return pattern


@cache
def class_of(name: str) -> str:
    r"""Return a character class of the package tokenizers as ranges of characters for a JavaScript regular expression.

    `name` is the class, such as "\s", or "digits": the characters that the pre-tokenizer `Digits` splits off.
    """
    from tokenizers import Regex, pre_tokenizers

    digits = pre_tokenizers.Digits(individual_digits=True)
    splitter = digits if name == "digits" else pre_tokenizers.Split(Regex(name), "isolated")
    # the filler must not belong to the class: nothing would split it from a character of the class
    codes = split_off(splitter, filler="0" if name == r"\p{L}" else "a")
    return "".join(f"\\u{{{first:x}}}-\\u{{{last:x}}}" for first, last in ranges(codes))


def split_off(splitter: Any, filler: str) -> Iterator[int]:
    """Yield every code point that a pre-tokenizer splits off from the character `filler` before it."""
    codes = list(all_code_points())
    for start in range(0, len(codes), CHARACTERS_AT_ONCE):
        chunk = codes[start : start + CHARACTERS_AT_ONCE]
        parts = splitter.pre_tokenize_str("".join(filler + chr(code) for code in chunk))
        # code points have odd indices in the text: a part that starts at one was split off from the filler before it
        yield from (chunk[first // 2] for _, (first, _) in parts if first % 2)
