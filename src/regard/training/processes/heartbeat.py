"""A connection kept open between the main process and every other one, so that each learns that another is gone.

Nothing is sent over it but a goodbye. When a process is killed, its system closes its connections at once; when a
machine loses its power or its network, the other end's system finds out by probes of its own (TCP keep-alive) within
a minute. Without it the others would wait for the lost one in their next exchange for as long as an exchange may
take, and that is days, since they also wait there while the main process prepares texts or judges.
"""

import os
import secrets
import socket
import struct
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from selectors import EVENT_READ, DefaultSelector
from threading import Event, Thread

from regard.errors import InputError, reason

KEEP_ALIVE = {"TCP_KEEPIDLE": 20, "TCP_KEEPALIVE": 20, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 4}
"""After 20 silent seconds a probe every 10, four in all; on macOS the first goes by another name."""

MEETING_SECONDS = 60
"""For all to have opened their connections."""

GRACE_SECONDS = 10
"""From a loss until a process that waits in an exchange with the lost one, and cannot be woken, is ended."""

GOODBYE = b"."
GREETING = struct.Struct("!QI")
"""The secret of this training, and the rank."""


class LostError(InputError):
    """Another process of the training is gone."""


class Lifelines:
    """The connections of one process: of the main one to all others, of those to the main one."""

    def __init__(self, connections: Mapping[int, socket.socket], n: int) -> None:
        self.connections = dict(connections)
        self.n = n
        self.words = ""
        self.lost, self.ended = Event(), Event()
        self.watching = Thread(target=self.watch, name="lifelines", daemon=True)
        self.watching.start()

    @classmethod
    def open(cls, rank: int, n: int, from_main: Callable[[list[int]], list[int]]) -> "Lifelines":
        """Connect all processes; each calls this.

        Args:
            rank: this process's.
            n: how many there are.
            from_main: tells all of them the main process's numbers.

        Raises:
            LostError: one did not come.
        """
        if rank:
            port, secret = from_main([0, 0])
            return cls({0: call(port, secret, rank)}, n)
        with server() as listening:
            port, secret = from_main([listening.getsockname()[1], secrets.randbits(62)])
            return cls(answer(listening, secret, n), n)

    def watch(self) -> None:
        """Wait until all have said goodbye, or one is lost."""
        with DefaultSelector() as selector:
            for rank, connection in self.connections.items():
                selector.register(connection, EVENT_READ, rank)
            while selector.get_map():
                for key, _ in selector.select():
                    selector.unregister(key.fileobj)
                    if not says_goodbye(self.connections[key.data]):
                        self.lose(key.data)
                        return

    def lose(self, rank: int) -> None:
        """Note who is lost, and end this process if it does not end by itself."""
        self.words = (
            f"process {rank + 1} of {self.n} is gone: it was ended or killed, or its machine or the network failed. "
            "The same command, started again on every machine, goes on from the latest checkpoint."
        )
        self.lost.set()
        if not self.ended.wait(GRACE_SECONDS):
            print(f"regard: {self.words}", file=sys.stderr, flush=True)
            os._exit(2)

    def refuse_lost(self) -> None:
        """To be asked after an exchange failed: was it because another is gone?

        Raises:
            LostError: it was.
        """
        if self.lost.wait(GRACE_SECONDS / 2):
            raise LostError(self.words)

    def goodbye(self) -> None:
        """Tell the others that all is done, and wait until they say so too."""
        self.ended.set()
        for connection in self.connections.values():
            with suppress(OSError):  # gone, and nobody needs it any more
                connection.sendall(GOODBYE)
        self.watching.join(GRACE_SECONDS)

    def close(self) -> None:
        """Close the connections; whoever has not said goodbye is gone for the others."""
        self.ended.set()
        for connection in self.connections.values():
            with suppress(OSError):  # gone
                connection.shutdown(socket.SHUT_RDWR)  # which wakes whoever watches, here too
        self.watching.join(GRACE_SECONDS)
        for connection in self.connections.values():
            connection.close()


def server() -> socket.socket:
    """Listen for the other processes, by either kind of address where the system has both."""
    if socket.has_dualstack_ipv6():
        listening = socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    else:
        listening = socket.create_server(("", 0))
    listening.settimeout(MEETING_SECONDS)
    return listening


def call(port: int, secret: int, rank: int) -> socket.socket:
    """Connect to the main process."""
    address = os.environ.get("MASTER_ADDR", "localhost")
    try:
        connection = socket.create_connection((address, port), timeout=MEETING_SECONDS)
        connection.sendall(GREETING.pack(secret, rank))
    except OSError as error:
        raise LostError(
            f"process {rank + 1} does not reach the main process at {address}, port {port}: "
            f"{reason(error)}; "
            "all processes must reach each other at any port."
        ) from error
    return kept_alive(connection)


def answer(listening: socket.socket, secret: int, n: int) -> dict[int, socket.socket]:
    """The connections of all other processes, by rank; whoever does not know the secret is sent away."""
    found: dict[int, socket.socket] = {}
    while len(found) < n - 1:
        try:
            connection, _ = listening.accept()
        except TimeoutError as error:
            missing = ", ".join(str(rank + 1) for rank in range(1, n) if rank not in found)
            raise LostError(
                f"the main process heard nothing of process {missing} of {n} within {MEETING_SECONDS} seconds; "
                "all processes must reach each other at any port."
            ) from error
        connection.settimeout(MEETING_SECONDS)
        told = greeting(connection)
        if told is not None and told[0] == secret:
            found[told[1]] = kept_alive(connection)
        else:
            connection.close()
    return found


def greeting(connection: socket.socket) -> tuple[int, int] | None:
    """The secret and the rank of whoever connected; None = it is nobody of ours."""
    try:
        secret, rank = GREETING.unpack(connection.recv(GREETING.size, socket.MSG_WAITALL))
    except (OSError, struct.error):
        return None
    return secret, rank


def kept_alive(connection: socket.socket) -> socket.socket:
    """Have the system probe whether the other end is still there."""
    connection.settimeout(None)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return connection


def says_goodbye(connection: socket.socket) -> bool:
    """Does the other end say goodbye, or is it gone?"""
    try:
        return connection.recv(1) == GOODBYE
    except OSError:
        return False
