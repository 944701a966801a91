"""Running explorers and translation services, with a method that sends requests to them."""

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from regard.cli.listening_socket import listen


@dataclass(frozen=True)
class Running:
    port: int

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def ask(
        self, path: str, content: Any = None, method: str = "POST", body: bytes | None = None, **headers: str
    ) -> tuple[int, Any, dict[str, str]]:
        """Return status, content and headers of an answer; JSON and text are decoded."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        sent = {"Content-Type": "application/json"} | {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, json.dumps(content).encode() if body is None else body, sent)
        answer = connection.getresponse()
        text, kind = answer.read(), answer.headers.get("content-type", "")
        connection.close()
        content = (
            json.loads(text)
            if kind.startswith("application/json")
            else text.decode()
            if kind.startswith("text/")
            else text
        )
        return answer.status, content, {name.lower(): value for name, value in answer.getheaders()}


@contextmanager
def running_servers() -> Iterator[Callable[[Callable[[tuple[str, ...]], ASGIApp]], Running]]:
    """Yield a function that runs application(hosts), for the hosts of a free port; all servers stop at the end."""
    servers: list[tuple[uvicorn.Server, threading.Thread]] = []

    def run(application: Callable[[tuple[str, ...]], ASGIApp]) -> Running:
        place = listen("127.0.0.1", 0)
        server = uvicorn.Server(uvicorn.Config(application(place.hosts), log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [place.socket]}, daemon=True)
        thread.start()
        servers.append((server, thread))
        return Running(place.socket.getsockname()[1])

    yield run
    for server, thread in servers:
        server.should_exit = True
        thread.join(20)
