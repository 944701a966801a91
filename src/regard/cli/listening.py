"""Listening on an address: the socket, the names by which it is reached, and the token that requests need."""

import secrets
import socket
from dataclasses import dataclass

from regard.errors import InputError, reason

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""The addresses that only programs on this machine can reach."""


@dataclass(frozen=True, slots=True, eq=False)
class Listening:
    """A socket that listens, and who may reach it.

    Attributes:
        address: the address to open, with the token in it if there is one.
        hosts: the names and ports by which it is reached from this machine; empty if it listens beyond this machine.
        token: the token that every request needs; None on this machine alone.
    """

    socket: socket.socket
    address: str
    hosts: tuple[str, ...]
    token: str | None


def listen(host: str, port: int) -> Listening:
    """Listen on an address; port 0 = a free one. Beyond this machine there is a token, drawn anew.

    Raises:
        InputError: the address cannot be had.
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
    """Return a host as it is written in an address: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host
