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
Answered = TypeVar("Answered")

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
        """Answer with the HTML page of a first trace; if that fails, with the reason as plain text."""
        answer = await self.run_alone(request, self.session.first_page, lambda data: HTMLResponse(live_page(data)))
        if isinstance(answer, JSONResponse):
            return PlainTextResponse(json.loads(bytes(answer.body))["error"], status_code=answer.status_code)
        return answer

    async def answer_json(
        self,
        request: Request,
        read: Callable[[object], Asked],
        answer: Callable[[Asked], Answered],
        respond: Callable[[Answered], Response],
    ) -> Response:
        """Answer a request whose body is JSON.

        Args:
            read: checks the decoded JSON and returns it as an object, such as a `Question`.
            answer: runs the model for this object, and returns the data of the response.
            respond: makes the response from these data.
        """
        try:
            question = read(json.loads(await request.body()))
        except (InputError, ValueError, RecursionError) as error:
            reason = str(error) if isinstance(error, InputError) else "the body of the request must be JSON in UTF-8."
            return JSONResponse({"error": reason}, status_code=400)
        return await self.run_alone(request, partial(answer, question), respond)

    async def run_alone(
        self, request: Request, answer: Callable[[], Answered], respond: Callable[[Answered], Response]
    ) -> Response:
        """Call `answer` as soon as no other request uses the model, and return its result as a response."""
        if self.n_requests >= MOST_WAITING:
            return JSONResponse({"error": "too many requests wait for the model; try again later."}, status_code=503)
        self.n_requests += 1
        try:
            async with self.model_lock:
                if await request.is_disconnected():
                    return Response(status_code=CLIENT_DISCONNECTED)
                return respond(await run_in_threadpool(answer))
        except TooLongError as error:
            long = {"tokens": error.n_tokens, "max_tokens": error.limit}
            return JSONResponse({"error": error.message_without_truncate, "too_long": long}, status_code=400)
        except InputError as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        finally:
            self.n_requests -= 1


def application(session: Session, hosts: Collection[str] = (), token: str | None = None) -> Guard:
    """Return the explorer as an ASGI application that accepts requests to these `hosts` (empty = all) with `token`."""
    explorer, as_bytes = Explorer(session), partial(Response, media_type="application/octet-stream")

    def post(
        path: str, read: Callable[[object], Any], answer: Callable[[Any], Any], respond: Any = JSONResponse
    ) -> Route:
        endpoint = partial(explorer.answer_json, read=read, answer=answer, respond=respond)
        return Route(path, endpoint, methods=["POST"])

    routes = [
        Route("/", explorer.page),
        post("/trace", Question.of, session.answer),
        post("/effect", Question.of, session.effect),
        post("/map/turn", partial(read_request, HeadRequest), lambda head: session.map_for(head).turn(head)),
        post("/map/tile", partial(read_request, TileRequest), lambda tile: session.map_for(tile).tile(tile), as_bytes),
        post("/map/strongest", partial(read_request, QueryRequest), lambda row: session.map_for(row).strongest(row)),
    ]
    return Guard(Starlette(routes=routes), hosts, token)
