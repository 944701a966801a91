"""Draw attention weights, of a `Pattern` or a tensor: a grid of queries × keys for each head of a batch item."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure
from torch import Tensor

from regard.attention.pattern import Pattern
from regard.errors import InputError, counted
from regard.tracing.given_weights import pattern_of_item
from regard.tracing.head import Head
from regard.tracing.tokens.readable_tokens import Token
from regard.views.picture.canvas import (
    CAPTION_LINE,
    FAINT,
    INNER_WIDTH,
    MARGIN,
    blank_page,
    check_picture_path,
    save_figure,
)
from regard.views.picture.fonts import fonts_for
from regard.views.picture.heads import (
    MOST_NAMED,
    draw_mosaic,
    mosaic_of,
    notes,
    token_margin,
    write_head_names,
    write_tokens,
)
from regard.views.picture.one_head import head_figure

TITLE_HEIGHT, AXIS_GAP, HEAD_NAME_HEIGHT, CAPTION_GAP = 0.4, 0.2, 0.2, 0.2
"""In inches: the height of the title, the space for the names of the axes, for the names of the heads, and above the
caption."""

Words = Sequence[str]


def draw(
    weights: Pattern | Tensor,
    path: str | Path,
    queries: Words | None = None,
    keys: Words | None = None,
    *,
    batch: int = 0,
    heads: Sequence[int] | None = None,
) -> Path:
    """Draw attention weights into a picture file, with the words of queries and keys, and return the path.

    Weights are drawn as shaded cells, with one exception: if there is one head, of at most 40 queries and 40 keys, and
    words are given, weights are drawn as circles with the weight as area. Several heads have no words if there are more
    than 20 queries or keys. One head with more than 60 queries has a word for one query, and with more than 60 keys,
    words for the five strongest keys of this query.

    Args:
        weights: a `Pattern`, or a tensor [queries keys], [heads queries keys] or [batch heads queries keys]. If there
            is a pattern for each token of a decoder, join those of one layer by torch.cat(patterns, dim=2).
        path: the path of the file, which ends in .png, .svg or .pdf.
        queries, keys: a word for each query, and for each key; None = no words.
        batch: the number of the batch item, from 0.
        heads: the numbers of the heads; None = all heads.

    Raises:
        InputError: the path has another ending or cannot be written; there is no such batch item or head; or there are
            not as many words as queries or keys.
        TypeError: `weights` is neither a `Pattern` nor a floating-point tensor.

    >>> import torch, tempfile, regard
    >>> weights = torch.tensor([[0.9, 0.1, 0.0], [0.2, 0.1, 0.7]])
    >>> path = regard.draw(weights, tempfile.mkdtemp() + "/a.png", queries=["a", "dog"], keys=["ein", "Hund", "."])
    >>> path.name
    'a.png'
    """
    path = Path(path)
    check_picture_path(path)
    pattern = pattern_of_item(weights, batch)
    n_queries, n_keys = pattern.shape[2:]
    for name, words, n in (("queries", queries, n_queries), ("keys", keys, n_keys)):
        if isinstance(words, str) or (words is not None and len(words) != n):
            raise InputError(f"{name} has {len(words)} words for {n} {name}; give a list with a word for each.")
    chosen = range(pattern.n_heads) if heads is None else heads
    if not chosen or any(head not in range(pattern.n_heads) for head in chosen):
        raise InputError(f"heads={list(chosen)} of a pattern of {counted(pattern.n_heads, 'head')}, counted from 0.")
    if len(chosen) == 1 and (queries or keys):
        head = head_of(pattern, chosen[0], tokens_of(queries, n_queries), tokens_of(keys, n_keys))
        title = "" if pattern.n_heads == 1 else f"head {chosen[0]}"
        return save_figure(head_figure(head, title, is_outlined=False), path)
    heads_label = f"head {chosen[0]}" if len(chosen) == 1 and pattern.n_heads > 1 else counted(len(chosen), "head")
    title = f"{heads_label} · {n_queries} queries × {n_keys} keys"
    return save_figure(weights_figure(pattern, title, chosen, queries, keys), path)


def weights_figure(
    pattern: Pattern,
    title: str | None = None,
    heads: Sequence[int] | None = None,
    queries: Words | None = None,
    keys: Words | None = None,
) -> Figure:
    """Return a figure of a pattern's weights: a grid of queries × keys for each head of the first batch item.

    Args:
        title: the text above the grids; None = the `repr` of the pattern.
        heads: the numbers of the heads; None = all.
        queries, keys: a word for each query and for each key; None = no words.
    """
    query_tokens, key_tokens = tokens_of(queries, pattern.shape[2]), tokens_of(keys, pattern.shape[3])
    chosen = range(pattern.n_heads) if heads is None else heads
    mosaic = mosaic_of([head_of(pattern, head, query_tokens, key_tokens) for head in chosen], one_layer=True)
    text = repr(pattern) if title is None else title
    has_token_labels = (queries is not None or keys is not None) and max(pattern.shape[2:]) <= MOST_NAMED
    labelled_tokens = [*query_tokens, *key_tokens] if has_token_labels else []
    fonts = fonts_for(text + "".join(token.text for token in labelled_tokens))
    left = token_margin(query_tokens, fonts) if has_token_labels else 0.0
    above = token_margin(key_tokens, fonts) if has_token_labels else 0.0
    side = mosaic.side(INNER_WIDTH - left - AXIS_GAP)
    sentences = [*notes(mosaic), fonts.advice]
    if title is None and pattern.shape[0] > 1:  # the title is then the `repr`, which tells the size of the batch
        sentences.insert(0, "The first item of the batch.")
    caption = fonts.lines(" ".join(sentences), 8.5, INNER_WIDTH)
    top = MARGIN + TITLE_HEIGHT + above + AXIS_GAP
    bottom = top + mosaic.image_size[0] * side + (HEAD_NAME_HEIGHT if len(chosen) > 1 else 0.0) + CAPTION_GAP
    page = blank_page(bottom + CAPTION_LINE * len(caption) + MARGIN, fonts)
    title_area = page.area(MARGIN, MARGIN, INNER_WIDTH, TITLE_HEIGHT)
    page.write(title_area, 0.0, 0.16, fonts.shortened(text, 10.5, INNER_WIDTH), 10.5)
    axes = draw_mosaic(page, MARGIN + left + AXIS_GAP, top, mosaic, side)
    page.write(axes, 0.0, -(0.07 + above) / side, "keys →", 8.0, color=FAINT)
    page.write(axes, -(0.1 + left) / side, 0.0, "queries →", 8.0, color=FAINT, rotation=270, va="top", ha="center")
    if len(chosen) > 1:
        write_head_names(page, axes, mosaic, side, [f"head {head}" for head in chosen])
    if has_token_labels:
        write_tokens(page, axes, mosaic, side)
    page.write_caption(bottom, caption)
    return page.figure


def tokens_of(words: Words | None, n: int) -> tuple[Token, ...]:
    """Return a token for each word, or n tokens without text; spaces alone, as in a model of characters, become ␣."""
    if words is None:
        return (Token(text="", piece=""),) * n
    return tuple([Token(text=word if word.strip(" ") else "␣" * len(word), piece=word) for word in words])


def head_of(pattern: Pattern, head: int, queries: tuple[Token, ...], keys: tuple[Token, ...]) -> Head:
    """Return a head of a pattern that belongs to no layer of a model."""
    return Head(kind="", layer=0, head=head, pattern=pattern, queries=queries, keys=keys)
