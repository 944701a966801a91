"""The map of a long text: the attention weights of one head as an image, into which the reader of a page can zoom.

The image exists at several levels of detail, which form the head's `Pyramid`. A cell of level n is the mean or the
largest of 2^n × 2^n weights, so level 0 shows single weights. The page loads an image in tiles of 256 × 256 cells.

Level 5 (STORED_LEVEL) of a head is computed once and stored, and higher levels are computed from it. To compute level 5
takes long, so each request computes only some of its rows (a turn), and the page sends requests until all rows are
done. The pyramids that were requested most recently stay in memory.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from operator import call
from time import perf_counter
from typing import Any, Literal, TypeVar

import torch

from regard.attention.pattern import Pattern
from regard.attention.pyramid import STORED_LEVEL, Pyramid, stored_bytes
from regard.attention.strongest import strongest_first
from regard.errors import InputError
from regard.tracing.tokens.readable_tokens import Token
from regard.tracing.trace import Trace
from regard.typed_fields import check_fields

TILE = 256
"""The height and width, in cells (pixels), of a tile of a head's image; tiles at the end of the text may be smaller."""

TURN_SECONDS = 0.5
"""One request computes parts of an image for this long; meanwhile, other requests wait."""

MOST_BYTES = 2**29
"""The stored images of all heads take at most this many bytes; one image for 131,072 tokens takes a quarter of them."""

N_LEVELS = 64
"""The number of zoom levels; a cell of level n has 2^n × 2^n weights, and no text has 2^64 tokens."""

N_STRONGEST = 8
"""The number of keys that `strongest` returns for a query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadRequest:
    """A request about one head, whose weights for a long text the page shows as a map (an image).

    Attributes:
        map: the number that `Map.record` returned. Each text has its own number, so that a request for a text that is
            no longer in memory is refused.
        kind: the kind of attention: "encoder", "decoder" or "cross".
        head: None = the mean over all heads of the layer.
        hidden: True = the map leaves out all special tokens, or the first token if the text has no special tokens.
    """

    map: int
    kind: str
    layer: int
    head: int | None
    hidden: bool

    @property
    def name(self) -> str:
        return f"L{self.layer} average" if self.head is None else f"L{self.layer}H{self.head}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TileRequest(HeadRequest):
    """A request for one tile of the map of a head.

    Attributes:
        level: a cell of the map is a square of 2^level queries × 2^level keys.
        row, column: the position of the tile among the tiles of this level, counted in tiles.
        pool: whether the number of a cell is the mean or the largest of the weights in its square.
    """

    level: int
    row: int
    column: int
    pool: Literal["mean", "max"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRequest(HeadRequest):
    """A request for the keys with the largest weights of the query at position `query`."""

    query: int


Requested = TypeVar("Requested", bound=HeadRequest)


def read_request(cls: type[Requested], content: object) -> Requested:
    """Convert the decoded JSON of a request to an object of `cls`; the JSON must have exactly the fields of `cls`."""
    names = [field.name for field in fields(cls)]
    if not isinstance(content, Mapping) or set(content) != set(names):
        raise InputError(f"the request must be a JSON object with the fields {', '.join(map(repr, names))}.")
    try:
        check_fields(cls, content)
    except TypeError as error:
        raise InputError(f"in the request, {error}") from error
    return cls(**content)


PyramidKey = tuple[str, int, int | None, bool]
"""The fields of a `HeadRequest` that say whose weights are shown: (kind, layer, head, hidden)."""


class Map:
    """Answers requests for the weights of a long text: tiles of the image of a head, and the strongest keys of a query.

    The methods must not be called concurrently.

    Args:
        trace: the trace of the text; it must contain queries and keys, from which the weights are computed.
        number: the number of this map, which every request for it contains (`HeadRequest.map`).
    """

    def __init__(self, trace: Trace, number: int) -> None:
        self.trace, self.number = trace, number
        self.pyramids: OrderedDict[PyramidKey, Pyramid] = OrderedDict()
        self.layers: dict[str, Mapping[int, Pattern]] = {kind: getattr(trace, kind) for kind in trace.kinds}
        for pattern in [pattern for layers in self.layers.values() for pattern in layers.values()]:
            pattern[0, 0, 0]  # raises InputError if the pattern stores statistics in place of queries and keys
            n_bytes = stored_bytes(pattern)
            if n_bytes > MOST_BYTES:
                raise InputError(
                    f"a map of {pattern.shape[2]:,} queries x {pattern.shape[3]:,} keys takes {n_bytes:,} bytes, "
                    f"more than {MOST_BYTES:,}; trace a shorter text."
                )

    def record(self) -> dict[str, int]:
        """Return what the page needs to request tiles (parts of the image of a head).

        "tile" is the side of a tile in cells (pixels). "stored" is the zoom level whose rows `turn` computes: tiles of
        this level and of higher levels can be requested after all its rows are computed.
        """
        return {"number": self.number, "tile": TILE, "stored": STORED_LEVEL}

    def turn(self, request: HeadRequest) -> dict[str, int]:
        """Compute more rows of the image of a head's weights (a pixel is 32 × 32 weights) for about `TURN_SECONDS`.

        Returns:
            {"done": the number of rows computed so far, "of": the number of all rows}.
        """
        pyramid = self.pyramid(request)
        rows = iter([row for row, is_stored in enumerate(pyramid.row_is_stored) if not is_stored])
        end = perf_counter() + TURN_SECONDS

        def compute_rows() -> None:
            for row in rows:  # the threads share this iterator, so each row is computed by one thread
                pyramid.compute(row)
                if perf_counter() > end:
                    return

        in_threads(request.name, [compute_rows] * torch.get_num_threads())
        return {"done": sum(pyramid.row_is_stored), "of": len(pyramid.row_is_stored)}

    def tile(self, request: TileRequest) -> bytes:
        """Return the cells of a tile, row after row, as little-endian float32; NaN = the mask hides the whole cell."""
        pyramid = self.pyramid(request)
        if not 0 <= request.level < N_LEVELS:
            raise InputError(f"there is no level {request.level}; there are {N_LEVELS} levels, counted from 0.")
        n_rows, n_columns = pyramid.shape(request.level)
        rows = range(request.row * TILE, min((request.row + 1) * TILE, n_rows))
        columns = range(request.column * TILE, min((request.column + 1) * TILE, n_columns))
        if request.row < 0 or request.column < 0 or not rows or not columns:
            raise InputError(
                f"there is no tile in row {request.row:,} and column {request.column:,}; "
                f"level {request.level} has {n_rows:,} x {n_columns:,} cells."
            )
        (cells,) = in_threads(request.name, [lambda: pyramid.read(request.level, rows, columns, request.pool)])
        return cells.numpy().astype("<f4").tobytes()

    def strongest(self, request: QueryRequest) -> dict[str, list[Any]]:
        """Return the positions and the weights of the keys with the largest weights of a query, the largest first."""
        pattern = self.pattern(request)
        if not 0 <= request.query < pattern.shape[2]:
            raise InputError(f"there is no query {request.query:,}; there are {pattern.shape[2]:,}, counted from 0.")
        heads = slice(None) if request.head is None else slice(request.head, request.head + 1)
        row = pattern[0, heads, request.query].mean(dim=0)
        if request.hidden:
            _, shown_keys = self.shown_positions(request)
            is_left_out = torch.ones(len(row), dtype=torch.bool)
            is_left_out[shown_keys] = False
            row = row.masked_fill(is_left_out.to(row.device), 0.0)
        weights, keys = strongest_first(row, min(N_STRONGEST, len(row)))
        is_nonzero = weights != 0
        return {"keys": keys[is_nonzero].tolist(), "weights": weights[is_nonzero].tolist()}

    def shown_positions(self, request: HeadRequest) -> tuple[list[int], list[int]]:
        """Return the positions, in the text, of the queries and of the keys that a map with `hidden=True` shows."""
        head = self.trace.heads(request.kind)[0]
        has_special = any(token.special for token in (*self.trace.source, *self.trace.target))

        def shown_in(tokens: Sequence[Token]) -> list[int]:
            if has_special:
                return [position for position, token in enumerate(tokens) if not token.special]
            return list(range(1 if len(tokens) > 1 else 0, len(tokens)))

        return shown_in(head.queries), shown_in(head.keys)

    def pattern(self, request: HeadRequest) -> Pattern:
        pattern = self.layers.get(request.kind, {}).get(request.layer)
        if pattern is None or (request.head is not None and not 0 <= request.head < pattern.n_heads):
            raise InputError(f"there is no head {request.head} in layer {request.layer} of {request.kind!r:.50}.")
        return pattern

    def pyramid(self, request: HeadRequest) -> Pyramid:
        """Return the `Pyramid` that computes the map of a head; it stays in memory for later requests.

        If the pyramids in memory take too much space, those that were not requested for the longest time are removed.
        """
        pattern, key = self.pattern(request), (request.kind, request.layer, request.head, request.hidden)
        if key not in self.pyramids:
            shown_positions = self.shown_positions(request) if request.hidden else None
            self.pyramids[key] = Pyramid(pattern, request.head, shown_positions)
        self.pyramids.move_to_end(key)
        while sum(stored_bytes(self.layers[kind][layer]) for kind, layer, _, _ in self.pyramids) > MOST_BYTES:
            self.pyramids.popitem(last=False)
        return self.pyramids[key]


def in_threads(head: str, tasks: Sequence[Callable[[], Any]]) -> list[Any]:
    """Run each task in its own thread, in which torch uses one core; return the results of the tasks, in order.

    `head` is the name of the head of which the tasks compute weights, with which an error message begins.

    The tensors of a map are small: to split a single operation among several cores takes longer than it saves.
    """
    n_threads = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(len(tasks), initializer=torch.set_num_threads, initargs=(1,)) as threads:
            return list(threads.map(call, tasks))
    except ValueError as error:
        raise InputError(f"{head}: {error}") from error
    finally:
        # Each thread has set torch's number of threads to 1, which would also hold for threads that start later.
        torch.set_num_threads(n_threads)
