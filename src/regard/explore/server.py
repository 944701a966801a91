"""The addresses that the explorer answers:

GET  /          the page, with a first trace in it
POST /trace     a question as JSON; the answer is the data of the page
POST /effect    a question with changes; the answer is what they do to the model's output and its heads

An answer to a question that cannot be answered is {"error": "…"} with status 400. The model works on one question at a
time; the others wait, and one whose reader has gone away is dropped.
"""

import asyncio
import json
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from regard.errors import InputError
from regard.explore.guard import Guard
from regard.explore.question import Question
from regard.explore.session import Session
from regard.views.page import live_page

MOST_WAITING = 32
"""The most questions that wait for the model; a further one is refused."""

READER_IS_GONE = 499
"""The status of a question whose reader no longer waits; nobody reads it."""


class Explorer:
    """The explorer's answers, one at a time."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.turn = asyncio.Lock()
        self.waiting = 0

    async def page(self, request: Request) -> Response:
        """Answer with the page and a first trace; a text says why there is none."""
        answer = await self.in_turn(request, self.session.first, lambda data: HTMLResponse(live_page(data)))
        if isinstance(answer, JSONResponse):
            return PlainTextResponse(json.loads(bytes(answer.body))["error"], status_code=answer.status_code)
        return answer

    async def trace(self, request: Request) -> Response:
        """Answer a question with the data of the page."""
        return await self.about(request, self.session.answer)

    async def effect(self, request: Request) -> Response:
        """Answer a question with the effect of its changes."""
        return await self.about(request, self.session.effect)

    async def about(self, request: Request, answer: Callable[[Question], dict[str, Any]]) -> Response:
        try:
            question = Question.of(json.loads(await request.body()))
        except (InputError, ValueError, RecursionError) as error:
            reason = str(error) if isinstance(error, InputError) else "a question is JSON in UTF-8."
            return JSONResponse({"error": reason}, status_code=400)
        return await self.in_turn(request, partial(answer, question), JSONResponse)

    async def in_turn(
        self, request: Request, answer: Callable[[], dict[str, Any]], respond: Callable[[dict[str, Any]], Response]
    ) -> Response:
        """Wait for the model, and answer if the reader still waits."""
        if self.waiting >= MOST_WAITING:
            return JSONResponse({"error": "too many questions wait for the model; ask again later."}, status_code=503)
        self.waiting += 1
        try:
            async with self.turn:
                if await request.is_disconnected():
                    return Response(status_code=READER_IS_GONE)
                return respond(await run_in_threadpool(answer))
        except InputError as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        finally:
            self.waiting -= 1


def application(session: Session, hosts: Collection[str] = (), token: str | None = None) -> Guard:
    """Return the explorer as an ASGI application; see `Guard` for hosts and token."""
    explorer = Explorer(session)
    routes = [
        Route("/", explorer.page),
        Route("/trace", explorer.trace, methods=["POST"]),
        Route("/effect", explorer.effect, methods=["POST"]),
    ]
    return Guard(Starlette(routes=routes), hosts, token)
