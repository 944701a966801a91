"""Listen for connections: the socket, the names by which it is reached, and the token that requests need."""

import secrets
import socket
from dataclasses import dataclass

from regard.errors import InputError, reason

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""The addresses that only programs on this machine can reach."""


@dataclass(frozen=True, slots=True, eq=False)
class Listening:
    """A listening socket, and which requests are accepted.

    Attributes:
        address: the address to open in a browser, with the token in it if there is one.
        hosts: the names and ports by which the server is reached from this machine; empty if other machines reach it.
        token: the token that every request needs; None if only this machine can reach the server.
    """

    socket: socket.socket
    address: str
    hosts: tuple[str, ...]
    token: str | None


def listen(host: str, port: int) -> Listening:
    """Open a socket that listens on an address; port 0 chooses a free port.

    If other machines can reach the address, a random token is created, which every request needs.

    Raises:
        InputError: the address is in use or does not exist.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        raise InputError(
            f"cannot listen on {host} port {port}: {reason(error).partition(' (')[0]}; give another --port or --host."
        ) from error
    port = listening.getsockname()[1]
    address = f"http://{name_of(host)}:{port}/"
    if host in LOOPBACK:
        return Listening(listening, address, tuple(f"{name_of(one)}:{port}" for one in LOOPBACK), None)
    token = secrets.token_urlsafe(24)
    return Listening(listening, f"{address}?token={token}", (), token)


def name_of(host: str) -> str:
    """Return a host as it is written in a URL: an IPv6 address is put in brackets."""
    return f"[{host}]" if ":" in host else host
