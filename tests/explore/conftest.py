"""Fixtures that start the explorer's server for tests."""

import threading
from collections.abc import Callable, Iterator
from functools import cache

import pytest
import uvicorn
from running_explorer import Running

from regard.cli.listening import listen
from regard.explore.server import application
from regard.explore.session import Session
from regard.tracing.model_loading import LoadedModel


@pytest.fixture(scope="session")
def serving() -> Iterator[Callable[..., Running]]:
    """Yield a function: serving(session, token="…") returns a running explorer, which is stopped after the tests."""
    servers: list[tuple[uvicorn.Server, threading.Thread]] = []

    def serve(session: Session, token: str | None = None) -> Running:
        listening = listen("127.0.0.1", 0).socket
        port = listening.getsockname()[1]
        hosts = () if token else (f"127.0.0.1:{port}", f"localhost:{port}")
        server = uvicorn.Server(uvicorn.Config(application(session, hosts, token), log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        servers.append((server, thread))
        return Running(port)

    yield serve
    for server, thread in servers:
        server.should_exit = True
        thread.join(20)


@pytest.fixture(scope="session")
def explorer(serving: Callable[..., Running], minilm: LoadedModel) -> Iterator[Running]:
    """A running explorer of MiniLM, which reads its first text once for all tests."""
    session = Session("MiniLM")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(session, "first_page", cache(session.first_page))
        yield serving(session)
