"""The endpoints of the explorer's HTTP server, which `application` lists.

If a request is wrong, the answer is {"error": "…"} with status 400. The model works on one request at a time, while
other requests wait. A waiting request is dropped if its client disconnects.
"""

import asyncio
import json
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from regard.errors import InputError, TooLongError
from regard.explore.guard import Guard
from regard.explore.map import HeadRequest, QueryRequest, TileRequest, read_request
from regard.explore.question import Question
from regard.explore.session import Session
from regard.views.page import live_page

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")

MOST_WAITING = 32
"""The largest number of requests that run or wait; further requests are refused."""

CLIENT_DISCONNECTED = 499
"""The HTTP status of a request whose client has disconnected; nobody receives it."""


class Explorer:
    """The handlers of the explorer's endpoints, which run the model for one request at a time."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.model_lock = asyncio.Lock()
        self.n_requests = 0  # that run or wait

    async def page(self, request: Request) -> Response:
        return HTMLResponse(live_page(await self.run_alone(request, self.session.first_page)))

    async def trace(self, request: Request) -> Response:
        question = await read_body(request, Question.of)
        return JSONResponse(await self.run_alone(request, lambda: self.session.answer(question)))

    async def effect(self, request: Request) -> Response:
        question = await read_body(request, Question.of)
        return JSONResponse(await self.run_alone(request, lambda: self.session.effect(question)))

    async def turn(self, request: Request) -> Response:
        asked = await read_body(request, partial(read_request, HeadRequest))
        return JSONResponse(await self.run_alone(request, lambda: self.session.map_for(asked).turn(asked)))

    async def tile(self, request: Request) -> Response:
        asked = await read_body(request, partial(read_request, TileRequest))
        cells = await self.run_alone(request, lambda: self.session.map_for(asked).tile(asked))
        return Response(cells, media_type="application/octet-stream")

    async def strongest(self, request: Request) -> Response:
        asked = await read_body(request, partial(read_request, QueryRequest))
        return JSONResponse(await self.run_alone(request, lambda: self.session.map_for(asked).strongest(asked)))

    async def run_alone(self, request: Request, answer: Callable[[], Answer]) -> Answer:
        """Call `answer` as soon as no other request uses the model, and return its result."""
        if self.n_requests >= MOST_WAITING:
            raise HTTPException(503, "too many requests wait for the model; try again later.")
        self.n_requests += 1
        try:
            async with self.model_lock:
                if await request.is_disconnected():
                    raise HTTPException(CLIENT_DISCONNECTED, "the client has disconnected.")
                return await run_in_threadpool(answer)
        finally:
            self.n_requests -= 1


async def read_body(request: Request, check: Callable[[object], Asked]) -> Asked:
    """Return the JSON body of a request as an object such as a `Question`, into which `check` converts it."""
    try:
        return check(json.loads(await request.body()))
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError("the body of the request must be JSON in UTF-8.") from error


async def error_answer(request: Request, error: Exception) -> Response:
    """Answer with the reason of an error: {"error": "…"}, or plain text if the request was for the page."""
    status, answer = 400, dict[str, Any](error=str(error))
    if isinstance(error, HTTPException):
        status, answer["error"] = error.status_code, error.detail
    if isinstance(error, TooLongError):
        answer["error"] = error.message_without_truncate
        answer["too_long"] = {"tokens": error.n_tokens, "max_tokens": error.limit}
    return PlainTextResponse(answer["error"], status) if request.url.path == "/" else JSONResponse(answer, status)


def application(session: Session, hosts: Collection[str] = (), token: str | None = None) -> Guard:
    """Return the explorer as an ASGI application that accepts requests to these `hosts` (empty = all) with `token`."""
    explorer = Explorer(session)
    routes = [
        Route("/", explorer.page),
        Route("/trace", explorer.trace, methods=["POST"]),  # the attention of the model to a text
        Route("/effect", explorer.effect, methods=["POST"]),  # what changes of heads change in attention and output
        # of a long text, for which /trace returns no weights:
        Route("/map/turn", explorer.turn, methods=["POST"]),  # how many rows of a head's image are computed
        Route("/map/tile", explorer.tile, methods=["POST"]),  # a part of this image
        Route("/map/strongest", explorer.strongest, methods=["POST"]),  # the strongest keys of a query
    ]
    handlers = {InputError: error_answer, 503: error_answer}
    return Guard(Starlette(routes=routes, exception_handlers=handlers), hosts, token)
