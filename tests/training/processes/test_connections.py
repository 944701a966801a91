"""The connections: a process that has finished is not lost, a closed connection is a loss, strangers are refused."""

import socket
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from refusals import refusal

from regard.training.processes import connections
from regard.training.processes.connections import (
    GREETING,
    Connections,
    LostError,
    accept_all,
    connect,
    listening_socket,
    with_keep_alive,
)

GONE = (
    "process {} of 3 is lost: it was ended or killed, or its machine or the network failed. "
    "The same command, started again on every machine, resumes from the latest checkpoint."
)


@pytest.fixture
def three():
    """Return the connections of three processes, which are threads in this test."""
    barrier, sent = Barrier(3), []

    def opened(rank):
        def from_main(numbers):
            if rank == 0:
                sent.extend(numbers)
            barrier.wait()
            return sent

        return Connections.open(rank, 3, from_main)

    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(opened, range(3)))
    yield found
    for each in found:
        each.close()
        each.thread.join(5)


def test_the_main_process_is_connected_to_all_others(three):
    assert [set(each.connections) for each in three] == [{1, 2}, {0}, {0}]


def test_a_process_that_has_finished_is_not_lost(three):
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(Connections.finish, three))
    for each in three:
        assert not each.thread.is_alive()
        assert not each.lost.is_set()


@pytest.fixture
def stays(monkeypatch):
    """Replace os._exit; return the list of the exit statuses with which it was called."""
    ended = []
    monkeypatch.setattr(connections, "GRACE_SECONDS", 0.2)
    monkeypatch.setattr(connections.os, "_exit", ended.append)
    return ended


@pytest.mark.usefixtures("stays")
@pytest.mark.parametrize(("lost", "first_to_see"), [(0, 1), (0, 2), (1, 0), (2, 0)])
def test_a_process_that_closes_before_it_has_finished_is_lost(three, lost, first_to_see):
    three[lost].close()
    assert refusal(LostError, three[first_to_see].raise_if_lost) == GONE.format(lost + 1)


def test_a_process_that_waits_in_an_exchange_is_ended(three, stays, capsys):
    three[2].close()
    three[0].thread.join(5)
    assert stays == [2]
    assert capsys.readouterr().err == f"regard: {GONE.format(3)}\n"


def test_a_process_that_ends_by_itself_is_not_ended(three, stays):
    three[0].raise_if_lost()  # no process is lost yet
    three[0].ended.set()
    three[2].close()
    three[0].thread.join(5)
    assert stays == []


def test_connections_without_the_secret_are_closed():
    secret = 12345
    with listening_socket() as listening, ThreadPoolExecutor(2) as pool:
        port = listening.getsockname()[1]
        found = pool.submit(accept_all, listening, secret, 2)
        for greeting in (b"", b"GET /", GREETING.pack(secret + 1, 1)):
            with socket.create_connection(("localhost", port), timeout=5) as stranger:
                stranger.sendall(greeting)
                if len(greeting) < GREETING.size:
                    stranger.shutdown(socket.SHUT_WR)
                assert stranger.recv(1) == b""
        with connect(port, secret, 1) as ours, found.result(5)[1] as theirs:
            theirs.sendall(b"x")
            assert ours.recv(1) == b"x"


def test_a_process_does_not_connect(monkeypatch):
    monkeypatch.setattr(connections, "CONNECT_SECONDS", 0.2)
    with listening_socket() as listening:
        assert refusal(LostError, accept_all, listening, 12345, 3) == (
            "the main process heard nothing from process 2, 3 of 3 within 0.2 seconds; "
            "all processes must reach each other on any port."
        )


def test_the_main_process_is_not_reached(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    assert refusal(LostError, connect, port, 12345, 1) == (
        f"process 2 does not reach the main process at 127.0.0.1, port {port}: connection refused; "
        "all processes must reach each other on any port."
    )


@pytest.mark.skipif(not hasattr(socket, "TCP_KEEPIDLE"), reason="the system does not tell how long it is silent")
def test_the_system_probes_within_a_minute():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        connection = with_keep_alive(socket.create_connection(listening.getsockname()))
    with connection:
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        idle, interval, n = (
            connection.getsockopt(socket.IPPROTO_TCP, getattr(socket, name))
            for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT")
        )
    assert idle + n * interval == 60
