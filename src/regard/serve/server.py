"""The addresses that the translation service answers:

POST /translate      {"texts": ["…"]} → {"translations": [{"text", "score", "alignment", "untranslated"}]}
GET  /health         {"status": "ok", "translator": "…"}
GET  /openapi.json   the service's description for programs; GET / for people

A request that cannot be answered gets {"error": "…"} with status 400, and with status 503 if too many wait.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from regard.errors import InputError
from regard.explore.guard import Guard
from regard.serve.batching import Batching, TooManyWaitingError
from regard.serve.openapi import description, page
from regard.serve.question import texts_of
from regard.translation.search.interface import Search
from regard.translation.translator import Translator


class Service:
    """The answers of the translation service."""

    def __init__(self, translator: Translator, search: Search) -> None:
        self.name = translator.name
        self.batching = Batching(translator, search)

    async def translate(self, request: Request) -> Response:
        """Answer a request with translations."""
        try:
            texts = texts_of(json.loads(await request.body()))
        except InputError as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        except (ValueError, RecursionError):
            return JSONResponse({"error": "a request is JSON in UTF-8."}, status_code=400)
        try:
            return JSONResponse(await self.batching.translate(texts))
        except TooManyWaitingError:
            refusal = {"error": "too many texts wait for the translator; ask again later."}
            return JSONResponse(refusal, status_code=503, headers={"Retry-After": "1"})

    async def health(self, request: Request) -> Response:
        """Answer that the service works."""
        return JSONResponse({"status": "ok", "translator": self.name})

    async def openapi(self, request: Request) -> Response:
        """Answer with the service's description for programs."""
        return JSONResponse(description(self.name))

    async def page(self, request: Request) -> Response:
        """Answer with the service's description for people."""
        return HTMLResponse(page(self.name, str(request.base_url)))

    @asynccontextmanager
    async def working(self, application: Starlette) -> AsyncIterator[None]:
        """While the server runs, translate what waits."""
        task = asyncio.create_task(self.batching.work())
        try:
            yield
        finally:
            task.cancel()


def application(translator: Translator, search: Search, hosts: Collection[str] = (), token: str | None = None) -> Guard:
    """Return the translation service as an ASGI application; see `Guard` for hosts and token."""
    service = Service(translator, search)
    routes = [
        Route("/", service.page),
        Route("/translate", service.translate, methods=["POST"]),
        Route("/health", service.health),
        Route("/openapi.json", service.openapi),
    ]
    return Guard(Starlette(routes=routes, lifespan=service.working), hosts, token, name="service")
