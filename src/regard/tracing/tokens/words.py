"""Groups the tokens of a text into words, and into sequences of words such as "Eiffel Tower"."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool
from torch import Tensor

from regard.errors import InputError, nearest
from regard.tracing.tokens.readable_tokens import Token


def words_of(
    sides: Sequence[Sequence[Token]], spans: Sequence[str]
) -> tuple[list[list[range]], list[tuple[Token, ...]]]:
    """Return, for each side (source and target), the positions of the tokens of each word, and a token for each word.

    `spans` are sequences of words that become one word each, such as "Eiffel Tower".
    """
    groups = [with_spans(side, word_groups(side), spans) for side in sides]
    words = [
        tuple(joined_token([side[i] for i in group]) for group in side_groups)
        for side, side_groups in zip(sides, groups, strict=True)
    ]
    texts = list(dict.fromkeys(word.text for side_words in words for word in side_words))
    letters_of_words = [letters_of(text) for text in texts if letters_of(text)]
    for span in spans:
        if letters_of(span) not in letters_of_words:  # a span that was found has become a word
            raise InputError(
                f"no words {span!r} in the text, or only parts of words; the nearest words are "
                f"{', '.join(nearest(span, texts))}."
            )
    return groups, words


def is_word(tokens: Sequence[Token]) -> Bool[Tensor, " tokens"]:
    """Return, for each token, whether it is a word: it has a letter or digit, and is not a special token.

    If no token is a word, all entries are True.
    """
    flags = [not token.special and any(map(str.isalnum, token.text)) for token in tokens]
    words = torch.tensor(flags, dtype=torch.bool, device="cpu")
    return words if bool(words.any()) else torch.ones_like(words)


def word_groups(tokens: Sequence[Token]) -> list[range]:
    """Return, for each word, the positions of its tokens.

    A token belongs to the same word as the token before it if no space separates them and both have letters or digits.
    An apostrophe between two such tokens belongs to their word too (Unicode Annex 29, rules WB6 and WB7).
    """
    words = is_word(tokens).tolist()
    for i in range(1, len(tokens) - 1):
        joined = tokens[i].joined and tokens[i + 1].joined
        words[i] |= joined and words[i - 1] and words[i + 1] and tokens[i].text in ("'", "’")
    groups: list[range] = []
    for position, token in enumerate(tokens):
        if position and token.joined and words[position] and words[position - 1]:
            groups[-1] = range(groups[-1].start, position + 1)
        else:
            groups.append(range(position, position + 1))
    return groups


def with_spans(tokens: Sequence[Token], groups: Sequence[range], spans: Sequence[str]) -> list[range]:
    """Return `groups`, in which consecutive groups that together spell one of `spans` are joined into one group.

    A group has the positions of the tokens of one word; a span is several words, such as "Eiffel Tower".
    """
    joined = list(groups)
    for span in spans:
        if not isinstance(span, str):
            raise TypeError(f"{span!r} is not the text of words; give each text by itself: words('Eiffel Tower').")
        letters, start = letters_of(span), 0
        while start < len(joined):
            stop = start
            while stop < len(joined) and len(spelled(tokens, joined[start:stop])) < len(letters):
                stop += 1
            if stop > start and spelled(tokens, joined[start:stop]) == letters:
                joined[start:stop] = [range(joined[start].start, joined[stop - 1].stop)]
            start += 1
    return joined


def letters_of(text: str) -> str:
    return "".join(text.split()).casefold()


def spelled(tokens: Sequence[Token], groups: Sequence[range]) -> str:
    return letters_of("".join(tokens[position].text for group in groups for position in group))


def joined_token(tokens: Sequence[Token]) -> Token:
    if len(tokens) == 1:
        return tokens[0]
    first, *others = tokens
    text = first.text + "".join(token.text if token.joined else f" {token.text}" for token in others)
    special = all(token.special for token in tokens)
    return Token(text, " ".join(token.piece for token in tokens), first.joined, special, first.place)
