"""Divide a text that is too long for the model into sentences, and join the translations of the sentences."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from regard.text.vocabulary import Vocabulary
from regard.translation.alignment import Alignment
from regard.translation.translation import Translation

SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])\s*")
"""The gap between two sentences: white space after . ! ? or …; after 。！？ the gap may be empty."""

CLAUSE = re.compile(r".+?(?:[,;:]\s+|[、，；：]\s*|$)", re.DOTALL)
"""A clause and the gap after it: white space after , ; or :; after 、，；： the gap may be empty."""

WIDE_MARKS = "。！？、，；："
"""The punctuation of Chinese and Japanese, after which a text has no space."""

LANGUAGE_CODE = re.compile(r"\s*>>\S+<<(?=\s)")
"""The code of the target language, such as >>fra<<, with which a text for some Marian models begins."""


def language_code(text: str, vocabulary: Vocabulary) -> str:
    """Return the language code with which a text begins, if it is a piece of the vocabulary, and otherwise ""."""
    match = LANGUAGE_CODE.match(text)
    return match.group().strip() if match and len(vocabulary.encode(match.group())) == 1 else ""


def sentences_that_fit(text: str, fits: Callable[[str], bool], code: str = "") -> list[str] | None:
    """Divide a text into sentences; divide a sentence that is too long into parts, each with as many clauses as fit.

    Each part begins with the language code of the text. None = one clause alone is too long.

    >>> sentences_that_fit("One, two. Three, four, five. Six.", lambda part: len(part) <= 12)
    ['One, two.', 'Three, four,', 'five.', 'Six.']
    """
    if code:
        parts_without_code = sentences_that_fit(text.strip().removeprefix(code), lambda part: fits(f"{code} {part}"))
        return None if parts_without_code is None else [f"{code} {part}" for part in parts_without_code]
    parts = list[str]()
    for sentence in filter(None, SENTENCE_END.split(text.strip())):
        sentence_parts = [sentence] if fits(sentence) else join_clauses(CLAUSE.findall(sentence), fits)
        if sentence_parts is None:
            return None
        parts += sentence_parts
    return parts


def join_clauses(clauses: Sequence[str], fits: Callable[[str], bool]) -> list[str] | None:
    """Join adjacent clauses into parts as long as `fits` allows; None = a clause alone is too long."""
    parts = list[str]()
    for clause in clauses:
        if parts and fits((parts[-1] + clause).rstrip()):
            parts[-1] += clause
        elif fits(clause.rstrip()):
            parts.append(clause)
        else:
            return None
    return [part.strip() for part in parts]


def join_texts(texts: Sequence[str]) -> str:
    """Join sentences with spaces, but with none after the punctuation of Chinese and Japanese.

    >>> join_texts(["One.", "Two."]), join_texts(["今日は。", "明日も。"])
    ('One. Two.', '今日は。明日も。')
    """
    joined = ""
    for text in texts:
        joined += text if not joined or joined[-1] in WIDE_MARKS else f" {text}"
    return joined


def join_translations(source: str, parts: Sequence[Translation]) -> Translation:
    """Join the translations of the parts of a text into one translation of the whole text.

    The score and the log-probability are sums over the parts. The k-th candidate joins the parts' k-th candidates, if
    every part has one.
    """
    kth_candidates = zip(*(part.candidates for part in parts), strict=False)
    last = parts[-1]
    return replace(
        parts[0],  # only its translator stays: every other field is replaced or has its default
        source=source,
        text=join_texts([part.text for part in parts]),
        score=sum(part.score for part in parts),
        log_probability=sum(part.log_probability for part in parts),
        source_ids=(*(token for part in parts for token in part.source_ids[:-1]), last.source_ids[-1]),
        source_pieces=(*(piece for part in parts for piece in part.source_pieces[:-1]), last.source_pieces[-1]),
        target_ids=tuple(token for part in parts for token in part.target_ids),
        target_pieces=tuple(piece for part in parts for piece in part.target_pieces),
        unknown=tuple(dict.fromkeys(letter for part in parts for letter in part.unknown)),
        missing=tuple(item for part in parts for item in part.missing),
        left_out=0,
        cut=any(part.cut for part in parts),
        candidates=tuple(join_translations(source, each) for each in kth_candidates),  # a candidate has none
        parts=tuple(parts),
    )


def join_alignments(source: str, target: str, parts: Sequence[Alignment]) -> Alignment:
    """Join the word alignments of the parts of a text into one alignment of the whole text.

    A target piece has weight 0 on the source pieces of other parts. The EOS of all parts but the last is left out.

    Args:
        source, target: the whole text and its translation.
    """
    word_in_source = indices_in_text(source.split(), [word for part in parts for word in part.source_words])
    word_in_target = indices_in_text(target.split(), [word for part in parts for word in part.target_words])
    source_word_of, target_word_of = list[int](), list[int]()
    n_source_words = n_target_words = 0
    for part in parts:
        source_word_of += [word_in_source[n_source_words + word] for word in part.source_word_of]
        target_word_of += [word_in_target[n_target_words + word] for word in part.target_word_of]
        n_source_words += len(part.source_words)
        n_target_words += len(part.target_words)
    last = parts[-1]
    weights = [*(part.piece_weights[:-1, :-1] for part in parts[:-1]), last.piece_weights]
    return Alignment(
        source_words=tuple(source.split()),
        target_words=tuple(target.split()),
        source_pieces=(*(piece for part in parts for piece in part.source_pieces[:-1]), last.source_pieces[-1]),
        target_pieces=(*(piece for part in parts for piece in part.target_pieces[:-1]), last.target_pieces[-1]),
        piece_weights=torch.block_diag(*weights),  # type: ignore[no-untyped-call]
        source_word_of=tuple(source_word_of),
        target_word_of=tuple(target_word_of),
    )


def indices_in_text(words: Sequence[str], part_words: Sequence[str]) -> list[int]:
    """Return, for each word in `part_words`, the index of the word in `words` that contains it.

    `words` are the words of a text; `part_words` are the words of its parts (sentences), one part after the other.
    Chinese and Japanese have no spaces between sentences, so one word of the text may contain words of several parts.
    Every part begins with the language code of the text, such as >>fra<<, if the text has one.

    >>> indices_in_text(["你好。再见。", "Tom."], ["你好。", "再见。", "Tom."])
    [0, 0, 1]
    >>> indices_in_text([">>fra<<", "Go.", "Run."], [">>fra<<", "Go.", ">>fra<<", "Run."])
    [0, 1, 0, 2]
    """
    indices, index = list[int](), -1
    remaining = ""  # the rest of words[index], after the part words that were found in it
    for word in part_words:
        # the language code at the beginning of a later part
        if index >= 0 and word == words[0] and LANGUAGE_CODE.match(f"{word} "):
            indices.append(0)
            continue
        if not remaining:
            index = min(index + 1, len(words) - 1)  # part words in excess belong to the last word
            remaining = words[index]
        indices.append(index)
        # a part word that the text does not have, such as a word taken from pieces, uses up the rest of words[index]
        remaining = remaining.removeprefix(word) if remaining.startswith(word) else ""
    return indices
