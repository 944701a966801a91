"""An open connection between the main process and every other one, by which each learns that another is lost.

Nothing but a last byte is sent over a connection. When a process is killed, its system closes its connections at once;
when a machine loses its power or its network, the system at the other end notices within a minute by probes of its own
(TCP keep-alive). Without the connections the others would wait for the lost process in their next exchange until its
timeout; that is days, since they also wait there while the main process prepares texts or evaluates.
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
"""The socket options for a probe after 20 silent seconds and then every 10 seconds, four probes in all; macOS has
TCP_KEEPALIVE in place of TCP_KEEPIDLE."""

CONNECT_SECONDS = 60
"""The time in which all processes must have connected."""

GRACE_SECONDS = 10
"""The time from a loss until this process is ended, if it still waits in an exchange with the lost process."""

LAST_BYTE = b"."
"""The byte that a process sends when it has finished: its connection may close without a loss."""

GREETING = struct.Struct("!QI")
"""The secret of this training and the rank of the process that connects."""


class LostError(InputError):
    """Another process of the training is lost."""


class Heartbeat:
    """The connections of one process: to all others in the main process, to the main process in the others."""

    def __init__(self, connections: Mapping[int, socket.socket], n: int) -> None:
        self.connections = dict(connections)
        self.n = n
        self.message = ""
        self.lost, self.ended = Event(), Event()
        self.thread = Thread(target=self.watch, name="heartbeat", daemon=True)
        self.thread.start()

    @classmethod
    def open(cls, rank: int, n: int, from_main: Callable[[list[int]], list[int]]) -> "Heartbeat":
        """Connect all processes; each process calls this.

        Args:
            rank: the rank of this process.
            n: the number of processes.
            from_main: sends numbers of the main process to all processes.

        Raises:
            LostError: a process did not connect.
        """
        if rank:
            port, secret = from_main([0, 0])
            return cls({0: connect(port, secret, rank)}, n)
        with server() as listening:
            port, secret = from_main([listening.getsockname()[1], secrets.randbits(62)])
            return cls(accept_all(listening, secret, n), n)

    def watch(self) -> None:
        """Wait until all connections have ended well, or one is lost."""
        with DefaultSelector() as selector:
            for rank, connection in self.connections.items():
                selector.register(connection, EVENT_READ, rank)
            while selector.get_map():
                for key, _ in selector.select():
                    selector.unregister(key.fileobj)
                    if not ended_well(self.connections[key.data]):
                        self.report_lost(key.data)
                        return

    def report_lost(self, rank: int) -> None:
        """Note the lost process, and end this process if it does not end by itself."""
        self.message = (
            f"process {rank + 1} of {self.n} is gone: it was ended or killed, or its machine or the network failed. "
            "The same command, started again on every machine, goes on from the latest checkpoint."
        )
        self.lost.set()
        if not self.ended.wait(GRACE_SECONDS):
            print(f"regard: {self.message}", file=sys.stderr, flush=True)
            os._exit(2)

    def raise_if_lost(self) -> None:
        """Raise LostError if another process is lost, or is found to be within some seconds; for a failed exchange."""
        if self.lost.wait(GRACE_SECONDS / 2):
            raise LostError(self.message)

    def finish(self) -> None:
        """Tell the other processes that this one has finished, and wait until they have."""
        self.ended.set()
        for connection in self.connections.values():
            with suppress(OSError):  # the other process is lost, and no longer needed
                connection.sendall(LAST_BYTE)
        self.thread.join(GRACE_SECONDS)

    def close(self) -> None:
        """Close the connections; to a process that has not finished this one is lost."""
        self.ended.set()
        for connection in self.connections.values():
            with suppress(OSError):  # closed by the other process
                connection.shutdown(socket.SHUT_RDWR)  # wakes the thread that watches
        self.thread.join(GRACE_SECONDS)
        for connection in self.connections.values():
            connection.close()


def server() -> socket.socket:
    """Listen for the other processes, on IPv4 and IPv6 if the system has both."""
    if socket.has_dualstack_ipv6():
        listening = socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    else:
        listening = socket.create_server(("", 0))
    listening.settimeout(CONNECT_SECONDS)
    return listening


def connect(port: int, secret: int, rank: int) -> socket.socket:
    """Connect to the main process."""
    address = os.environ.get("MASTER_ADDR", "localhost")
    try:
        connection = socket.create_connection((address, port), timeout=CONNECT_SECONDS)
        connection.sendall(GREETING.pack(secret, rank))
    except OSError as error:
        raise LostError(
            f"process {rank + 1} does not reach the main process at {address}, port {port}: "
            f"{reason(error)}; "
            "all processes must reach each other at any port."
        ) from error
    return with_keep_alive(connection)


def accept_all(listening: socket.socket, secret: int, n: int) -> dict[int, socket.socket]:
    """Return the connections of all other processes by rank; connections without the secret are closed."""
    connections: dict[int, socket.socket] = {}
    while len(connections) < n - 1:
        try:
            connection, _ = listening.accept()
        except TimeoutError as error:
            missing = ", ".join(str(rank + 1) for rank in range(1, n) if rank not in connections)
            raise LostError(
                f"the main process heard nothing of process {missing} of {n} within {CONNECT_SECONDS} seconds; "
                "all processes must reach each other at any port."
            ) from error
        connection.settimeout(CONNECT_SECONDS)
        greeting = read_greeting(connection)
        if greeting is not None and greeting[0] == secret:
            connections[greeting[1]] = with_keep_alive(connection)
        else:
            connection.close()
    return connections


def read_greeting(connection: socket.socket) -> tuple[int, int] | None:
    """Return the secret and the rank that a new connection sends, or None if it sends something else."""
    try:
        secret, rank = GREETING.unpack(connection.recv(GREETING.size, socket.MSG_WAITALL))
    except (OSError, struct.error):
        return None
    return secret, rank


def with_keep_alive(connection: socket.socket) -> socket.socket:
    """Return the connection without a timeout, with the system's probes switched on."""
    connection.settimeout(None)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return connection


def ended_well(connection: socket.socket) -> bool:
    """Return whether the other process has finished; False = its connection is lost."""
    try:
        return connection.recv(1) == LAST_BYTE
    except OSError:
        return False
