"""The HTTP endpoints of the translation service; /openapi.json describes their requests and answers.

The answer to an invalid request is {"error": "…"} with a status from 400 to 421; if too many texts wait, it is 503.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from regard.errors import InputError
from regard.explore.guard import Guard
from regard.serve.batching import Batching, TooManyWaitingError
from regard.serve.openapi import description, page
from regard.serve.question import texts_of


class Service:
    """The handlers of the service's endpoints."""

    def __init__(self, batching: Batching, token: str | None) -> None:
        self.name, self.batching, self.token = batching.translator.name, batching, token

    async def translate(self, request: Request) -> Response:
        try:
            texts = texts_of(json.loads(await request.body()))
        except InputError as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        except (ValueError, RecursionError):
            return JSONResponse({"error": "a request must be JSON in UTF-8."}, status_code=400)
        try:
            return JSONResponse(await self.batching.translate(texts))
        except TooManyWaitingError:
            refusal = {"error": "too many texts wait for the translator; send the request again later."}
            return JSONResponse(refusal, status_code=503, headers={"Retry-After": "1"})

    async def health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok", "translator": self.name})

    async def openapi(self, request: Request) -> Response:
        return JSONResponse(description(self.name))

    async def page(self, request: Request) -> Response:
        return HTMLResponse(page(self.name, str(request.base_url), self.token))

    @asynccontextmanager
    async def working(self, application: Starlette) -> AsyncIterator[None]:
        """Translate the waiting requests in a task; Starlette keeps this context open while the server runs."""
        task = asyncio.create_task(self.batching.work())
        try:
            yield
        finally:
            task.cancel()


def application(batching: Batching, hosts: Collection[str] = (), token: str | None = None) -> Guard:
    """Return the translation service as an ASGI application; `Guard` checks the host and the token of each request."""
    service = Service(batching, token)
    routes = [
        Route("/", service.page),
        Route("/translate", service.translate, methods=["POST"]),
        Route("/health", service.health),
        Route("/openapi.json", service.openapi),
    ]
    handlers = {HTTPException: error_answer}
    return Guard(
        Starlette(routes=routes, lifespan=service.working, exception_handlers=handlers), hosts, token, name="service"
    )


def error_answer(request: Request, error: Exception) -> Response:
    """Answer with an error: 404 if the address does not exist, 405 if it exists but not with the request's method."""
    assert isinstance(error, HTTPException)
    reason = f"{request.method} {request.url.path}: {error.detail}; GET /openapi.json describes the service."
    return JSONResponse({"error": reason}, error.status_code, error.headers)
