"""The map of a trace that is too long for a page: its weights in tiles, from the whole text down to single weights.

The weights of a head are reduced to several levels, its `Pyramid`: a cell of level n is the mean or the largest of
2^n × 2^n weights. A tile is 256 × 256 cells of one level. The high levels are computed once for each head, in short
turns: the page asks for the next turn until all are done. The pyramids of the heads that were read last stay in memory.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
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
"""The number of rows and of columns of a tile; tiles at the end of the text may have fewer."""

TURN_SECONDS = 0.5
"""How long cells of a map are computed without a pause, before other requests are answered."""

MOST_BYTES = 2**29
"""The most bytes of the stored maps of all heads; the map of one head at 131,072 tokens takes a quarter of this."""

N_STRONGEST = 8
"""How many keys with the largest weights are returned for a query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadRequest:
    """A request about one head of a long text, whose weights the page shows as a map (an image).

    Attributes:
        map: the number of the map, different for each text, so that a request for an earlier text is refused.
        kind, layer: the kind of attention, and the number of the layer.
        head: the number of the head; None = the mean over all heads of the layer.
        hidden: True = the map has no special tokens; if the text has none, the map leaves out the first token.
    """

    map: int
    kind: str
    layer: int
    head: int | None
    hidden: bool

    @property
    def name(self) -> str:
        """The name in messages: "L3H1" for a head, "L3 average" for the mean over all heads of a layer."""
        return f"L{self.layer} average" if self.head is None else f"L{self.layer}H{self.head}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TileRequest(HeadRequest):
    """A request for one tile (square part) of the map of a head.

    Attributes:
        level: a cell of the map is a square of 2^level queries × 2^level keys.
        row, column: the position of the tile among the tiles of this level, counted in tiles.
        pool: whether a cell has the mean or the largest of the weights in its square.
    """

    level: int
    row: int
    column: int
    pool: Literal["mean", "max"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRequest(HeadRequest):
    """A request for the strongest keys of the query at position `query`, in one head."""

    query: int


Requested = TypeVar("Requested", bound=HeadRequest)


def read_request(cls: type[Requested], content: object) -> Requested:
    """Check the JSON of a request, and return it as an object of `cls`, such as `TileRequest`.

    Raises:
        InputError: the JSON is not an object with exactly the fields of the class, or a field has a wrong type.
    """
    names = [field.name for field in fields(cls)]
    if not isinstance(content, Mapping) or set(content) != set(names):
        raise InputError(f"the request must be a JSON object with the fields {', '.join(map(repr, names))}.")
    try:
        check_fields(cls, content)
    except TypeError as error:
        raise InputError(f"in the request, {error}") from error
    return cls(**content)


class Map:
    """Answers requests for the weights of a long text: tiles (square images) of the map of a head, and single rows.

    The methods must not be called concurrently.

    Args:
        number: the map's number, which every request for this map contains (`HeadRequest.map`).

    Raises:
        InputError: the trace is too long, or was stored without queries and keys.
    """

    def __init__(self, trace: Trace, number: int) -> None:
        self.trace, self.number = trace, number
        self.pyramids: OrderedDict[tuple[str, int, int | None, bool], Pyramid] = OrderedDict()
        self.layers: dict[str, Mapping[int, Pattern]] = {kind: getattr(trace, kind) for kind in trace.kinds}
        for pattern in [pattern for layers in self.layers.values() for pattern in layers.values()]:
            pattern[0, 0, 0]  # raises InputError if there are no queries and keys
            n_bytes = stored_bytes(pattern)
            if n_bytes > MOST_BYTES:
                raise InputError(
                    f"a map of {pattern.shape[2]:,} queries x {pattern.shape[3]:,} keys takes {n_bytes:,} bytes, "
                    f"more than {MOST_BYTES:,}; trace a shorter text."
                )

    def record(self) -> dict[str, int]:
        """Return what the page needs to request tiles: the map's "number", the side of a "tile" in cells, and "stored".

        "stored" is the lowest level that is kept in memory; a cell of level n stands for 2^n × 2^n weights.
        """
        return {"number": self.number, "tile": TILE, "stored": STORED_LEVEL}

    def turn(self, request: HeadRequest) -> dict[str, int]:
        """Compute rows of the stored map of a head for a short time; return {"done": rows so far, "of": all rows}.

        Raises:
            InputError: there is no such head, or its scores are NaN or infinite.
        """
        pyramid = self.pyramid(request)
        rows = iter([row for row, is_stored in enumerate(pyramid.row_is_stored) if not is_stored])
        end = perf_counter() + TURN_SECONDS

        def compute_rows() -> None:
            for row in rows:  # each row goes to one of the threads
                pyramid.compute(row)
                if perf_counter() > end:
                    return

        in_threads(request, [compute_rows] * torch.get_num_threads())
        return {"done": sum(pyramid.row_is_stored), "of": len(pyramid.row_is_stored)}

    def tile(self, request: TileRequest) -> bytes:
        """Return the numbers of a tile (square of the map), row after row, as little-endian float32; NaN = masked out.

        Raises:
            InputError: there is no such tile, or its cells are not computed yet, or a score is NaN or infinite.
        """
        pyramid = self.pyramid(request)
        if not 0 <= request.level < 64:
            raise InputError(f"there is no level {request.level}; levels are counted from 0.")
        shape = pyramid.shape(request.level)
        rows, columns = (
            range(number * TILE, min((number + 1) * TILE, size))
            for number, size in zip((request.row, request.column), shape, strict=True)
        )
        if request.row < 0 or request.column < 0 or not rows or not columns:
            raise InputError(
                f"there is no tile in row {request.row:,} and column {request.column:,}; "
                f"level {request.level} has {shape[0]:,} x {shape[1]:,} cells."
            )
        (numbers,) = in_threads(request, [lambda: pyramid.read(request.level, rows, columns, request.pool)])
        return numbers.numpy().astype("<f4").tobytes()

    def strongest(self, request: QueryRequest) -> dict[str, list[Any]]:
        """Return {"keys": …, "weights": …}: the keys with a query's largest nonzero weights, largest first.

        Raises:
            InputError: there is no such query.
        """
        pattern = self.pattern(request)
        if not 0 <= request.query < pattern.shape[2]:
            raise InputError(f"there is no query {request.query:,}; there are {pattern.shape[2]:,}, counted from 0.")
        heads = slice(None) if request.head is None else slice(request.head, request.head + 1)
        row = pattern[0, heads, request.query].mean(dim=0)
        if request.hidden:
            left_out = torch.ones(len(row), dtype=torch.bool)
            left_out[list(self.shown_positions(request)[1])] = False
            row = row.masked_fill(left_out.to(row.device), 0.0)
        weights, keys = strongest_first(row, min(N_STRONGEST, len(row)))
        is_nonzero = weights != 0
        return {"keys": keys[is_nonzero].tolist(), "weights": weights[is_nonzero].tolist()}

    def shown_positions(self, request: HeadRequest) -> tuple[list[int], list[int]]:
        """Return the positions of the queries, and of the keys, that the map shows if `hidden` (see `HeadRequest`)."""
        head = self.trace.heads(request.kind)[0]
        any_special = any(token.special for token in (*self.trace.source, *self.trace.target))

        def shown_in(tokens: Sequence[Token]) -> list[int]:
            if any_special:
                return [position for position, token in enumerate(tokens) if not token.special]
            return list(range(1 if len(tokens) > 1 else 0, len(tokens)))

        return shown_in(head.queries), shown_in(head.keys)

    def pattern(self, request: HeadRequest) -> Pattern:
        """Return the pattern of a head's layer; raise InputError if there is no such head."""
        pattern = self.layers.get(request.kind, {}).get(request.layer)
        if pattern is None or (request.head is not None and not 0 <= request.head < pattern.n_heads):
            raise InputError(f"there is no head {request.head} in layer {request.layer} of {request.kind!r:.50}.")
        return pattern

    def pyramid(self, request: HeadRequest) -> Pyramid:
        """Return the `Pyramid` of a head, which computes its map; the pyramids requested last stay in memory."""
        pattern, name = self.pattern(request), (request.kind, request.layer, request.head, request.hidden)
        if name not in self.pyramids:
            self.pyramids[name] = Pyramid(
                pattern, request.head, self.shown_positions(request) if request.hidden else None
            )
        self.pyramids.move_to_end(name)
        while sum(stored_bytes(self.layers[kind][layer]) for kind, layer, *_ in self.pyramids) > MOST_BYTES:
            self.pyramids.popitem(last=False)
        return self.pyramids[name]


def in_threads(request: HeadRequest, tasks: Sequence[Callable[[], Any]]) -> list[Any]:
    """Run each task in a thread of its own, in which torch uses one core; return their results.

    The tensors of a map are so small that to split one operation among cores would take longer than it saves.

    Raises:
        InputError: a task raises ValueError; the message names the head of `request`.
    """
    n_threads = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(len(tasks), initializer=torch.set_num_threads, initargs=(1,)) as threads:
            return [started.result() for started in [threads.submit(task) for task in tasks]]
    except ValueError as error:
        raise InputError(f"{request.name}: {error}") from error
    finally:
        torch.set_num_threads(n_threads)  # threads that start later begin with the number that was set last
