"""The listening socket of a server, with the host names and the secret token that its requests must have."""

import secrets
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regard.errors import InputError, reason

if TYPE_CHECKING:
    from starlette.types import ASGIApp

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""The loopback addresses, which only programs on this machine can reach."""


@dataclass(frozen=True, slots=True, eq=False)
class ListeningSocket:
    """A listening socket, and which requests the server accepts.

    Attributes:
        address: the URL to open in a browser; it contains the token, if there is one.
        hosts: the values of a request's Host header that are accepted, such as "localhost:8000"; empty = all.
        token: the secret text that every request needs; None if only this machine can reach the server.
    """

    socket: socket.socket
    address: str
    hosts: tuple[str, ...]
    token: str | None

    def run(self, application: "ASGIApp") -> None:
        import uvicorn

        config = uvicorn.Config(application, log_level="warning", access_log=False, server_header=False)
        uvicorn.Server(config).run(sockets=[self.socket])


def listen(host: str, port: int) -> ListeningSocket:
    """Open a listening socket (port 0 = any free port), with a token if other machines can reach it."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        opened = socket.create_server((host, port), family=family)
    except OSError as error:
        cause = reason(error).partition(" (")[0]  # Python adds " (while attempting to bind on address …)"
        raise InputError(f"cannot listen on {host} port {port}: {cause}; give another --port or --host.") from error
    port = opened.getsockname()[1]
    address = f"http://{host_in_url(host)}:{port}/"
    if host in LOOPBACK:
        # a page of another site could make the browser call this server under its own name; so names are checked
        hosts = tuple(f"{host_in_url(loopback)}:{port}" for loopback in LOOPBACK)
        return ListeningSocket(opened, address, hosts, token=None)
    token = secrets.token_urlsafe(24)
    return ListeningSocket(opened, f"{address}?token={token}", hosts=(), token=token)


def host_in_url(host: str) -> str:
    """An IPv6 address stands in brackets in a URL."""
    return f"[{host}]" if ":" in host else host
