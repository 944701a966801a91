"""The text that a model read, with one query's attention weights in one head.

The background colour of a key shows the query's weight on the key. Arcs lead from the query to the keys. The width of
an arc is proportional to the weight. The largest weights are written under their keys. A long text takes several lines.
If there are too many lines, only the tokens near the query and near its strongest keys are shown, and … stands for the
other tokens.
"""

import math
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

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
from regard.views.picture.pattern import half_capital
from regard.views.shared_text import token_label

PAD, WORD_GAP, TOKEN_GAP = 0.04, 0.06, 0.01
"""In inches: the space between the letters of a token and the edge of its box, between two words, and between two
tokens of one word."""

LOWEST_ARC, ARC_SLOPE, ARC_MARGIN = 0.2, 0.17, 0.05
"""The height of an arc over one line: LOWEST_ARC, and ARC_SLOPE for each inch between its ends. ARC_MARGIN is the space
above the tallest arc. Heights are in inches."""

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

    @property
    def is_gap(self) -> bool:
        return self.position < 0


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
        sentences = [f"Tint and arcs: where {quoted(name)} looks."]
        for verb, boxes, tokens in texts:
            n_shown = sum(not box.is_gap for box in boxes)
            if n_shown < len(tokens):
                nearby = f"those near {quoted(name)} and near its strongest keys"
                sentences.append(f"Of the {len(tokens)} tokens {verb}, {n_shown} are shown: {nearby}.")
        return sentences

    def draw(self, page: Page, axes: Axes) -> None:
        """Draw the text into `axes`; the coordinates of the axes must be in inches, (0, 0) = top left."""
        steps = self.focus.head.pattern.steps(batch=0, head=self.focus.head.number, query=self.focus.query)
        is_allowed = (steps.masked > -float("inf")).tolist()  # `masked` = scores, -∞ where the mask forbids the key
        self._draw_arcs(axes, self.focus.weights)
        for box in (*self.keys, *self.queries):
            if box.is_gap:
                self._write_text(page, axes, box, FAINT)
            elif box in self.queries:
                self._draw_box(page, axes, box, 0.0, is_allowed=True)
            else:
                self._draw_box(page, axes, box, self.focus.weights[box.position], is_allowed[box.position])
        boxes = {box.position: box for box in self.keys}
        for key in self.written:
            box = boxes[key.position]
            y = self._top(box) + BOX_HEIGHT + 0.14
            page.write(axes, box.middle, y, f"{key.weight:.3f}", 8.0, color=BLUE, ha="center")

    def _draw_box(self, page: Page, axes: Axes, box: Box, weight: float, is_allowed: bool) -> None:
        face = weight_colours()(weight) if is_allowed else MASKED
        shape = f"round,pad=0,rounding_size={PAD}"
        patch = FancyBboxPatch((box.left, self._top(box)), box.width, BOX_HEIGHT, boxstyle=shape, facecolor=face)
        patch.set(edgecolor=INK if box is self._start else "none", linewidth=1.6, clip_on=False, zorder=0.4)
        patch.set_gid(f"{'query' if box in self.queries else 'key'}-{box.position}")
        axes.add_patch(patch)
        self._write_text(page, axes, box, text_colour(weight) if is_allowed else FAINT)

    def _write_text(self, page: Page, axes: Axes, box: Box, colour: str) -> None:
        baseline = self._top(box) + BOX_HEIGHT / 2 + half_capital(self.size)
        page.write(axes, box.middle, baseline, box.text, self.size, color=colour, ha="center")

    def _draw_arcs(self, axes: Axes, weights: Sequence[float]) -> None:
        start = self._start
        ends = [box for box in self.keys if not box.is_gap and weights[box.position] > 0]
        end_weights = [weights[box.position] for box in ends]
        thickest, palest = (9.0, 0.5) if self.n_lines < 3 else (6.0, 0.3)  # arcs must not hide lines of text
        arcs = PathCollection(
            [self._arc(start, end) for end in ends],
            facecolors="none",
            edgecolors=[to_rgba(BLUE, palest + 0.4 * weight) for weight in end_weights],
            linewidths=[thickest * weight for weight in end_weights],
            zorder=0.5,
            clip_on=False,
        )
        arcs.set_gid("arcs")
        axes.add_collection(arcs, autolim=False)

    def _arc(self, start: Box, end: Box) -> Curve:
        """Return an arc over two boxes of one line, or from the bottom of the upper box to the top of the lower box."""
        if start.line == end.line:
            start_y = end_y = self._top(start)
            highest = self._room_above(start.line) - ARC_MARGIN
            arc_height = min(highest, LOWEST_ARC + ARC_SLOPE * abs(start.middle - end.middle))
            control_y = start_y - 4 / 3 * arc_height  # a Bézier curve rises to 3/4 of the height of its control points
            aside = 0.4 if start is end else 0.0  # an arc from a token to itself is a loop
            controls = [(start.middle - aside, control_y), (end.middle + aside, control_y)]
        else:
            start_y, end_y = self._edge(start, end), self._edge(end, start)
            halfway = (start_y + end_y) / 2
            controls = [(start.middle, halfway), (end.middle, halfway)]
        points = [(start.middle, start_y), *controls, (end.middle, end_y)]
        return Curve(points, [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4])

    def _edge(self, box: Box, other: Box) -> float:
        """Return the y of the edge of `box` that faces `other`: its top, or the bottom of the box and its weight."""
        if other.line < box.line:
            return self._top(box)
        has_weight = box in self.keys and any(key.position == box.position for key in self.written)
        return self._top(box) + BOX_HEIGHT + (LABEL_HEIGHT if has_weight else 0.0)

    def _room_above(self, line: int) -> float:
        """Return the height of the space for arcs above a line of text."""
        start = self._start
        if self.n_lines == 1:
            longest = max(abs(start.middle - end.middle) for end in self.keys)
            return min(TALLEST_ARC, 0.28 + ARC_SLOPE * longest)  # 0.28 > LOWEST_ARC + ARC_MARGIN
        if line == 0 and (self.queries or start.line > 0):
            return 0.0  # arcs from a query on a lower line, or to keys below the queries, do not rise above line 0
        return 0.55 if self.n_lines < 4 else 0.3  # many lines are closer together

    @property
    def _start(self) -> Box:
        return next(box for box in self.queries or self.keys if box.position == self.focus.query)

    def _top(self, box: Box) -> float:
        room_between_lines = self._room_above(1)  # the same for all lines below line 0
        return self._room_above(0) + box.line * (BOX_HEIGHT + LABEL_HEIGHT + room_between_lines)


def lay_out_sentence(focus: Focus, fonts: Fonts) -> Sentence:
    """Return the drawing of a text: on one line in large letters, or on several lines in small letters.

    If the text is too long, only the tokens near the query and near its strongest keys are drawn.
    """
    head = focus.head
    written = [key for key in head.top(focus.query, N_WRITTEN) if key.weight >= 0.0005]
    strongest = {key.position for key in written}
    around_keys, around_query = dict.fromkeys(strongest, AROUND_KEY), {focus.query: AROUND_QUERY}
    all_keys, all_queries = list(range(len(head.keys))), list[int]()
    if head.kind == "cross":
        all_queries = list(range(len(head.queries)))
        some_keys = excerpt(around_keys or {0: AROUND_KEY}, len(head.keys))  # no strong key: the first tokens
        some_queries = excerpt(around_query, len(head.queries))
    else:
        # the query keeps its reach, AROUND_QUERY, if it is also a strong key
        some_keys, some_queries = excerpt(around_keys | around_query, len(head.keys)), []
    layouts = [
        *((size, 1, all_keys, all_queries) for size in FONT_SIZES),
        (WRAPPED_FONT_SIZE, MOST_LINES, all_keys, all_queries),
        (WRAPPED_FONT_SIZE, math.inf, some_keys, some_queries),
    ]
    for size, most_lines, keys, queries in layouts:
        query_boxes = place_boxes(head.queries, queries, fonts, size, first_line=0, written=set())
        first_key_line = query_boxes[-1].line + 1 if query_boxes else 0
        key_boxes = place_boxes(head.keys, keys, fonts, size, first_line=first_key_line, written=strongest)
        n_lines_of_keys = 1 + key_boxes[-1].line - first_key_line
        if max(n_lines_of_keys, first_key_line) <= most_lines:
            break
    return Sentence(focus, fonts, size, tuple(key_boxes), tuple(query_boxes), tuple(written))


def excerpt(reaches: dict[int, int], n_tokens: int) -> list[int]:
    """Return the positions of the tokens to show of a long text, in rising order; -1 = here tokens are left out.

    For each position in `reaches`, the token at this position and `reaches[position]` tokens on each side are shown.

    >>> excerpt({3: 1, 7: 2}, 12)
    [-1, 2, 3, 4, 5, 6, 7, 8, 9, -1]
    """
    shown = set[int]()
    for centre, reach in reaches.items():
        shown.update(range(max(0, centre - reach), min(n_tokens, centre + reach + 1)))
    positions, next_position = list[int](), 0
    for position in sorted(shown):
        positions += [position] if position == next_position else [-1, position]
        next_position = position + 1
    return positions if next_position == n_tokens else [*positions, -1]


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
    boxes: list[Box] = []
    right, line = 0.0, first_line
    for position in positions:
        text = tokens[position].text if position >= 0 else "…"
        text = fonts.shortened(text, size, INNER_WIDTH - 2 * PAD)
        width_of_weight = fonts.width("0.000", 8.0) if position in written else 0.0
        width = max(fonts.width(text, size), width_of_weight) + 2 * PAD
        left = right
        if boxes:
            is_same_word = position > 0 and tokens[position].joined and boxes[-1].position == position - 1
            left += TOKEN_GAP if is_same_word else WORD_GAP
        if boxes and left + width > INNER_WIDTH:
            left, line = 0.0, line + 1
        boxes.append(Box(position, text, left, width, line))
        right = left + width
    if not reads_from_right(token.text for token in tokens):
        return boxes
    line_width = max((box.left + box.width for box in boxes), default=0.0)
    return [replace(box, left=line_width - box.left - box.width) for box in boxes]


def reads_from_right(texts: Iterable[str]) -> bool:
    """Return whether most letters are written from right to left, as in Arabic and Hebrew.

    >>> reads_from_right(["ארס", "[CLS]"]), reads_from_right(["the", "word", "ארס"])
    (False, False)
    >>> reads_from_right(["הנחש", "מסוכן", "[CLS]"])
    True
    """
    directions = Counter(unicodedata.bidirectional(letter) for text in texts for letter in text)
    return directions["R"] + directions["AL"] > directions["L"]
