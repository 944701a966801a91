"""The text that a model read, with one query's attention weights in one head.

The background colour of a key shows the query's weight on the key. Arcs lead from the query to the keys. The width of
an arc is proportional to the weight. The largest weights are written under their keys. A long text takes several lines.
If there are too many lines, only the tokens near the query and near its strongest keys are shown, and … stands for the
other tokens.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.colors import to_rgba
from matplotlib.patches import FancyBboxPatch
from matplotlib.path import Path as Curve

from regard.tracing.focus import Focus
from regard.tracing.head import KeyWeight
from regard.tracing.tokens.readable_tokens import Token
from regard.views.picture.canvas import BLUE, FAINT, INK, INNER_WIDTH, MASKED, Page, text_colour, weight_colours
from regard.views.picture.fonts import Fonts, quoted
from regard.views.shared_text import token_label

PAD, WORD_GAP, TOKEN_GAP = 0.04, 0.06, 0.01
"""In inches: the space between the letters of a token and the edge of its box, between two words, and between two
tokens of one word."""

BOX_HEIGHT, LABEL_HEIGHT, TALLEST_ARC = 0.27, 0.19, 1.0
"""In inches: the height of a token's box, of the weight written under the box, and of the tallest arc over one line."""

FONT_SIZES = (14.0, 13.0, 12.0)
"""The font sizes for a text on one line, in points; the first with which the text fits is used."""

WRAPPED_FONT_SIZE, MOST_LINES, N_WRITTEN = 10.5, 8, 5
"""A text of several lines has the font size WRAPPED_FONT_SIZE, in points. Of a text of more than MOST_LINES lines, only
parts are shown. At most N_WRITTEN weights are written under their keys."""

AROUND_QUERY, AROUND_KEY = 9, 4
"""The number of tokens shown on each side of the query, and on each side of a key with a large weight, if only parts of
a text are shown."""


@dataclass(frozen=True, slots=True)
class Box:
    """A token as it is drawn. Lengths are in inches.

    Attributes:
        position: the position of the token in the text; -1 = the box has a … in place of tokens that are left out.
        left: the distance of the box from the beginning of the line.
        line: the number of the line, counted from 0.
    """

    position: int
    text: str
    left: float
    width: float
    line: int

    @property
    def middle(self) -> float:
        return self.left + self.width / 2


@dataclass(frozen=True, slots=True, eq=False)
class Sentence:
    """The drawing of a text: a box for each token. Lengths are in inches.

    Attributes:
        focus: the query and the head whose weights are drawn.
        size: the font size, in points.
        keys: the boxes of the keys.
        queries: for cross-attention, the boxes of the queries, which are drawn above the keys; otherwise empty.
        written: the keys with the largest weights; the weight of such a key is written under its box.
    """

    focus: Focus
    fonts: Fonts
    size: float
    keys: tuple[Box, ...]
    queries: tuple[Box, ...]
    written: tuple[KeyWeight, ...]

    @property
    def height(self) -> float:
        return self._top(self.keys[-1]) + BOX_HEIGHT + LABEL_HEIGHT

    @property
    def n_lines(self) -> int:
        return self.keys[-1].line + 1

    @property
    def notes(self) -> list[str]:
        """The sentences of the caption: what colours and arcs mean, and how many tokens are shown."""
        name = self.fonts.shortened(token_label(self.focus.query, self.focus.head.queries), self.size, 2.0)
        texts = [("read", self.keys, self.focus.head.keys)]
        if self.queries:
            texts.append(("written", self.queries, self.focus.head.queries))
        counts = [(verb, sum(box.position >= 0 for box in boxes), len(tokens)) for verb, boxes, tokens in texts]
        return [f"Tint and arcs: where {quoted(name)} looks."] + [
            f"Of the {total} tokens {verb}, {shown} are shown: those near {quoted(name)} and near its strongest keys."
            for verb, shown, total in counts
            if shown < total
        ]

    def draw(self, page: Page, axes: Axes) -> None:
        """Draw the text into `axes`; the coordinates of the axes must be in inches, (0, 0) = top left."""
        weights = self.focus.weights
        steps = self.focus.head.pattern.steps(0, self.focus.head.number, self.focus.query)
        allowed = (steps.masked > -float("inf")).tolist()
        self._draw_arcs(axes, weights)
        for box in self.keys:
            self._draw_box(page, axes, box, weights[box.position] if box.position >= 0 else 0.0, allowed[box.position])
        for box in self.queries:
            self._draw_box(page, axes, box, 0.0, True)
        boxes = {box.position: box for box in self.keys}
        for key in self.written:
            box = boxes[key.position]
            page.write(
                axes, box.middle, self._top(box) + BOX_HEIGHT + 0.14, f"{key.weight:.3f}", 8.0, color=BLUE, ha="center"
            )

    def _draw_box(self, page: Page, axes: Axes, box: Box, weight: float, allowed: bool) -> None:
        is_query = box.position == self.focus.query and (box in self.queries or not self.queries)
        if box.position >= 0:
            face = weight_colours()(weight) if allowed else MASKED
            edge = INK if is_query else "none"
            shape = f"round,pad=0,rounding_size={PAD}"
            patch = FancyBboxPatch((box.left, self._top(box)), box.width, BOX_HEIGHT, boxstyle=shape, facecolor=face)
            patch.set(edgecolor=edge, linewidth=1.6, clip_on=False, zorder=0.4)
            patch.set_gid(f"{'query' if box in self.queries else 'key'}-{box.position}")
            axes.add_patch(patch)
        ink = text_colour(weight) if allowed and box.position >= 0 else FAINT
        baseline = self._top(box) + BOX_HEIGHT / 2 + self.size * 0.36 / 72
        page.write(axes, box.middle, baseline, box.text, self.size, color=ink, ha="center")

    def _draw_arcs(self, axes: Axes, weights: Sequence[float]) -> None:
        start = self._start
        ends = [box for box in self.keys if box.position >= 0 and weights[box.position] > 0]
        shown = [weights[box.position] for box in ends]
        thickest, palest = (9.0, 0.5) if self.n_lines < 3 else (6.0, 0.3)  # arcs must not hide lines of text
        arcs = PathCollection(
            [self._arc(start, end) for end in ends],
            facecolors="none",
            edgecolors=[to_rgba(BLUE, palest + 0.4 * weight) for weight in shown],
            linewidths=[thickest * weight for weight in shown],
            zorder=0.5,
            clip_on=False,
        )
        arcs.set_gid("arcs")
        axes.add_collection(arcs, autolim=False)

    def _arc(self, start: Box, end: Box) -> Curve:
        """Return an arc over two boxes of one line, or from the bottom of the upper box to the top of the lower box."""
        if start.line == end.line:
            ends = [(start.middle, self._top(start)), (end.middle, self._top(end))]
            rise = 4 / 3 * min(self._room_above(start.line) - 0.05, 0.2 + 0.17 * abs(start.middle - end.middle))
            aside = 0.4 if start is end else 0.0  # an arc from a token to itself is a loop
            controls = [(ends[0][0] - aside, ends[0][1] - rise), (ends[1][0] + aside, ends[1][1] - rise)]
        else:
            ends = [(start.middle, self._edge(start, end)), (end.middle, self._edge(end, start))]
            half = (ends[1][1] - ends[0][1]) / 2
            controls = [(ends[0][0], ends[0][1] + half), (ends[1][0], ends[1][1] - half)]
        return Curve([ends[0], *controls, ends[1]], [Curve.MOVETO, *3 * [Curve.CURVE4]])

    def _edge(self, box: Box, other: Box) -> float:
        """Return the y of the edge of `box` that faces `other`: its top, or the bottom of the box and its weight."""
        below = LABEL_HEIGHT if box in self.keys and any(key.position == box.position for key in self.written) else 0.0
        return self._top(box) + (BOX_HEIGHT + below if other.line > box.line else 0.0)

    def _room_above(self, line: int) -> float:
        """Return the height of the space for arcs above a line of text."""
        start = self._start
        if self.n_lines == 1:
            return min(TALLEST_ARC, 0.28 + 0.17 * max(abs(start.middle - end.middle) for end in self.keys))
        if line == 0 and (self.queries or start.line > 0):
            return 0.0
        return 0.55 if self.n_lines < 4 else 0.3

    @property
    def _start(self) -> Box:
        return next(box for box in self.queries or self.keys if box.position == self.focus.query)

    def _top(self, box: Box) -> float:
        return self._room_above(0) + box.line * (BOX_HEIGHT + LABEL_HEIGHT + self._room_above(1))


def lay_out_sentence(focus: Focus, fonts: Fonts) -> Sentence:
    """Return the drawing of a text: on one line in large letters, or on several lines in small letters.

    If the text is too long, only the tokens near the query and near its strongest keys are drawn.
    """
    head = focus.head
    written = [key for key in head.top(focus.query, N_WRITTEN) if key.weight >= 0.0005]
    strongest = {key.position for key in written}
    is_cross = head.kind == "cross"
    all_positions = (list(range(len(head.keys))), list(range(len(head.queries))) if is_cross else [])
    around_keys, around_query = dict.fromkeys(strongest, AROUND_KEY), {focus.query: AROUND_QUERY}
    if is_cross:
        excerpts = (excerpt(around_keys or {0: AROUND_KEY}, len(head.keys)), excerpt(around_query, len(head.queries)))
    else:
        excerpts = (excerpt(around_keys | around_query, len(head.keys)), [])
    # Layouts, the first that fits is used: (font size, largest number of lines, (key positions, query positions))
    one_line = [(size, 1, all_positions) for size in FONT_SIZES]
    for size, most_lines, (keys, queries) in (
        *one_line,
        (WRAPPED_FONT_SIZE, MOST_LINES, all_positions),
        (WRAPPED_FONT_SIZE, 99, excerpts),
    ):
        query_boxes = place_boxes(head.queries, queries, fonts, size, 0, set())
        first_line = query_boxes[-1].line + 1 if query_boxes else 0
        key_boxes = place_boxes(head.keys, keys, fonts, size, first_line, strongest)
        if all(len({box.line for box in boxes}) <= most_lines for boxes in (key_boxes, query_boxes)):
            break
    return Sentence(focus, fonts, size, tuple(key_boxes), tuple(query_boxes), tuple(written))


def excerpt(reaches: dict[int, int], n_tokens: int) -> list[int]:
    """Return the positions of the tokens to show of a long text, in rising order; -1 = here tokens are left out.

    For each position in `reaches`, the token at this position and `reaches[position]` tokens on each side are shown.

    >>> excerpt({3: 1, 7: 2}, 12)
    [-1, 2, 3, 4, 5, 6, 7, 8, 9, -1]
    """
    near = {p for centre, reach in reaches.items() for p in range(centre - reach, centre + reach + 1)}
    shown = sorted(near & set(range(n_tokens)))
    positions = [shown[0]] if shown[0] == 0 else [-1, shown[0]]
    for before, position in pairwise(shown):
        positions += [position] if position == before + 1 else [-1, position]
    return positions if shown[-1] == n_tokens - 1 else [*positions, -1]


def place_boxes(
    tokens: Sequence[Token], positions: Sequence[int], fonts: Fonts, size: float, first_line: int, written: set[int]
) -> list[Box]:
    """Arrange tokens side by side in lines, and return their boxes.

    Args:
        positions: the positions of the tokens to show; -1 = a box with ….
        size: the font size, in points.
        first_line: the number of the first line.
        written: the positions of tokens with a weight written below; their boxes are wide enough for it.
    """
    placed: list[Box] = []
    right, line = 0.0, first_line
    for position in positions:
        text = tokens[position].text if position >= 0 else "…"
        text = fonts.shortened(text, size, INNER_WIDTH - 2 * PAD)
        widths = [fonts.width(text, size), fonts.width("0.000", 8.0) if position in written else 0.0]
        width = max(widths) + 2 * PAD
        joined = position > 0 and tokens[position].joined and placed and placed[-1].position == position - 1
        left = right
        if placed:
            left += TOKEN_GAP if joined else WORD_GAP
        if left + width > INNER_WIDTH and right > 0:
            left, line = 0.0, line + 1
        placed.append(Box(position, text, left, width, line))
        right = left + width
    if not reads_from_right(token.text for token in tokens):
        return placed
    widest = max((box.left + box.width for box in placed), default=0.0)
    return [replace(box, left=widest - box.left - box.width) for box in placed]


def reads_from_right(texts: Iterable[str]) -> bool:
    """Return whether most letters are written from right to left, as in Arabic and Hebrew.

    >>> reads_from_right(["ארס", "[CLS]"]), reads_from_right(["the", "word", "ארס"])
    (False, False)
    >>> reads_from_right(["הנחש", "מסוכן", "[CLS]"])
    True
    """
    directions = Counter(unicodedata.bidirectional(letter) for text in texts for letter in text)
    return directions["R"] + directions["AL"] > directions["L"]
