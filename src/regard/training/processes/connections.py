"""TCP connections between the main process and every other process, by which a process notices that another one died.

If a process dies, the main process notices it and ends; then the other processes notice the end of the main process.
Each process other than the main one sends a greeting at the start, and every process sends one byte when it has
finished; no message is sent in between. When a process is killed, its operating system closes its connections at once.
When a machine loses power or network, the operating system of the other machine notices within about a minute by its
own probes (TCP keep-alive). Without these connections the remaining processes would wait in their next exchange of
gradients until its timeout. The timeout is several days, since processes also wait in an exchange while the main
process prepares texts or evaluates.
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
"""Socket options: probe after 20 seconds without traffic, then every 10 seconds; the connection is lost after four
unanswered probes. macOS has TCP_KEEPALIVE in place of TCP_KEEPIDLE."""

CONNECT_SECONDS = 60
"""After this many seconds without an answer, a process stops trying to connect to another process."""

GRACE_SECONDS = 10
"""After another process is lost, this process has this many seconds to end by itself; then `os._exit` ends it."""

LAST_BYTE = b"."
"""The byte that a process sends when it has finished; if its connection closes without this byte, it has died."""

GREETING = struct.Struct("!QI")
"""The format of the first bytes over a connection: a secret random number of this training, and the sender's rank."""


class LostError(InputError):
    """Another process of the training has died or cannot be reached."""


class Connections:
    """The connections of this process to other processes; a thread notices when one of those processes dies.

    Args:
        connections: the sockets, by the rank of the process at the other end.
        n: the number of processes.
    """

    def __init__(self, connections: Mapping[int, socket.socket], n: int) -> None:
        self.connections = dict(connections)
        self.n = n
        self.message = ""
        self.lost = Event()  # another process is lost
        self.ended = Event()  # this process has called `finish` or `close`
        self.thread = Thread(target=self.watch, name="connections", daemon=True)
        self.thread.start()

    @classmethod
    def open(cls, rank: int, n: int, from_main: Callable[[list[int]], list[int]]) -> "Connections":
        """Connect this process: the main process to all others, every other process to the main process.

        All processes must call this method at the same time.

        Args:
            rank: the rank of this process; the main process has rank 0.
            from_main: a function that sends a list from the main process to all processes, and returns it in each, such
                as `Processes.from_main`.
        """
        if rank:
            port, secret = from_main([])  # the main process sends both
            return cls({0: connect(port, secret, rank)}, n)
        with listening_socket() as listening:
            port, secret = from_main([listening.getsockname()[1], secrets.randbits(62)])
            return cls(accept_all(listening, secret, n), n)

    def watch(self) -> None:
        """Wait until all connected processes have finished or one is lost; this runs in a thread of its own."""
        with DefaultSelector() as selector:
            for rank, connection in self.connections.items():
                selector.register(connection, EVENT_READ, rank)
            while selector.get_map():
                for key, _ in selector.select():
                    selector.unregister(key.fileobj)  # the process has finished or is lost
                    if not ended_well(self.connections[key.data]):
                        self.report_lost(key.data)
                        return

    def report_lost(self, rank: int) -> None:
        """Store the message of `raise_if_lost`; exit if this process still runs after `GRACE_SECONDS`."""
        self.message = (
            f"process {rank + 1} of {self.n} is lost: it was ended or killed, or its machine or the network failed. "
            "The same command, started again on every machine, resumes from the latest checkpoint."
        )
        self.lost.set()
        if not self.ended.wait(GRACE_SECONDS):
            print(f"regard: {self.message}", file=sys.stderr, flush=True)
            os._exit(2)

    def raise_if_lost(self) -> None:
        """Raise LostError if `watch` finds a lost process within seconds. Call this after a collective call fails."""
        if self.lost.wait(GRACE_SECONDS / 2):  # less than the time after which `report_lost` exits
            raise LostError(self.message)

    def finish(self) -> None:
        """Tell the other processes that this one has finished; wait for them to finish, at most `GRACE_SECONDS`."""
        self.ended.set()
        for connection in self.connections.values():
            with suppress(OSError):  # raised if the other process is lost, which does not matter any more
                connection.sendall(LAST_BYTE)
        self.thread.join(GRACE_SECONDS)

    def close(self) -> None:
        """Close the connections. If `finish` was not called before, the other processes report this process as lost."""
        self.ended.set()
        for connection in self.connections.values():
            with suppress(OSError):  # raised if the other process has closed the connection
                connection.shutdown(socket.SHUT_RDWR)  # wakes the thread in `watch`
        self.thread.join(GRACE_SECONDS)
        for connection in self.connections.values():
            connection.close()


def listening_socket() -> socket.socket:
    if socket.has_dualstack_ipv6():
        listening = socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    else:
        listening = socket.create_server(("", 0))
    listening.settimeout(CONNECT_SECONDS)
    return listening


def connect(port: int, secret: int, rank: int) -> socket.socket:
    """Connect to the main process, whose address is in the environment variable MASTER_ADDR, and send a greeting."""
    address = os.environ.get("MASTER_ADDR", "localhost")
    try:
        connection = socket.create_connection((address, port), timeout=CONNECT_SECONDS)
        connection.sendall(GREETING.pack(secret, rank))
    except OSError as error:
        raise LostError(
            f"process {rank + 1} does not reach the main process at {address}, port {port}: "
            f"{reason(error)}; all processes must reach each other on any port."
        ) from error
    return with_keep_alive(connection)


def accept_all(listening: socket.socket, secret: int, n: int) -> dict[int, socket.socket]:
    """Accept the connections of the other n - 1 processes; return each by the rank of its process.

    A connection whose greeting does not have the number `secret` is closed.
    """
    connections: dict[int, socket.socket] = {}
    while len(connections) < n - 1:
        try:
            connection, _ = listening.accept()
        except TimeoutError as error:
            missing = ", ".join(str(other + 1) for other in range(1, n) if other not in connections)
            raise LostError(
                f"the main process heard nothing from process {missing} of {n} within {CONNECT_SECONDS} seconds; "
                "all processes must reach each other on any port."
            ) from error
        connection.settimeout(CONNECT_SECONDS)
        rank = greeting_rank(connection, secret)
        if rank is None:
            connection.close()
        else:
            connections[rank] = with_keep_alive(connection)
    return connections


def greeting_rank(connection: socket.socket, secret: int) -> int | None:
    """Read the greeting of a new connection; return the sender's rank, or None without the number `secret`."""
    try:
        received_secret, rank = GREETING.unpack(connection.recv(GREETING.size, socket.MSG_WAITALL))
    except (OSError, struct.error):  # struct.error: the greeting is too short
        return None
    return rank if received_secret == secret else None


def with_keep_alive(connection: socket.socket) -> socket.socket:
    connection.settimeout(None)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return connection


def ended_well(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == LAST_BYTE
    except OSError:
        return False
