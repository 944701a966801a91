"""Fixtures that start the translation service for tests."""

import threading
from collections.abc import Callable, Iterator

import pytest
import uvicorn
from running_explorer import Running

from regard.cli.listening import listen
from regard.serve.batching import Batching
from regard.serve.server import application
from regard.translation.search.beam import Beam
from regard.translation.translator import Translator


@pytest.fixture(scope="session")
def serving() -> Iterator[Callable[..., Running]]:
    """Yield a function: serving(translator, token="…") returns a running service, which is stopped after the tests."""
    servers: list[tuple[uvicorn.Server, threading.Thread]] = []

    def serve(translator: Translator, token: str | None = None) -> Running:
        place = listen("127.0.0.1", 0)
        app = application(Batching(translator, Beam(3)), () if token else place.hosts, token)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [place.socket]}, daemon=True)
        thread.start()
        servers.append((server, thread))
        return Running(place.socket.getsockname()[1])

    yield serve
    for server, thread in servers:
        server.should_exit = True
        thread.join(20)


@pytest.fixture(scope="session")
def service(serving: Callable[..., Running], translator: Translator) -> Running:
    """A running service of the trained translator."""
    return serving(translator)
