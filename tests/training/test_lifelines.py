"""Lifelines: a goodbye is no loss, a closed connection is one, and strangers are sent away."""

import socket
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from regard.training.processes import heartbeat as lifelines
from regard.training.processes.heartbeat import GREETING, Lifelines, LostError, answer, call, kept_alive, server

GONE = (
    "process {} of 3 is gone: it was ended or killed, or its machine or the network failed. "
    "The same command, started again on every machine, goes on from the latest checkpoint."
)


@pytest.fixture
def three():
    """Those of three processes, here of three threads."""
    barrier, told = Barrier(3), []

    def opened(rank):
        def from_main(numbers):
            if rank == 0:
                told.extend(numbers)
            barrier.wait()
            return told

        return Lifelines.open(rank, 3, from_main)

    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(opened, range(3)))
    yield found
    for lines in found:
        lines.close()
        lines.watching.join(5)


def test_who_is_connected_to_whom(three):
    assert [set(lines.connections) for lines in three] == [{1, 2}, {0}, {0}]


def test_a_goodbye_is_no_loss(three):
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(Lifelines.goodbye, three))
    for lines in three:
        assert not lines.watching.is_alive()
        assert not lines.lost.is_set()


@pytest.fixture
def stays(monkeypatch):
    """What would have ended this process is written down instead."""
    ended = []
    monkeypatch.setattr(lifelines, "GRACE_SECONDS", 0.2)
    monkeypatch.setattr(lifelines.os, "_exit", ended.append)
    return ended


@pytest.mark.usefixtures("stays")
@pytest.mark.parametrize(("lost", "first_to_see"), [(0, 1), (0, 2), (1, 0), (2, 0)])
def test_whoever_goes_without_a_goodbye_is_lost(three, lost, first_to_see):
    three[lost].close()
    with pytest.raises(LostError) as refusal:
        three[first_to_see].refuse_lost()
    assert str(refusal.value) == GONE.format(lost + 1)


def test_nobody_is_lost(three, stays):
    three[0].refuse_lost()
    assert stays == []


def test_who_cannot_be_woken_is_ended(three, stays, capsys):
    """As one that waits in an exchange with the lost one."""
    three[2].close()
    three[0].watching.join(5)
    assert stays == [2]
    assert capsys.readouterr().err == f"regard: {GONE.format(3)}\n"


def test_who_ends_by_himself_is_let_go(three, stays):
    three[0].ended.set()
    three[2].close()
    three[0].watching.join(5)
    assert stays == []


def test_strangers_are_sent_away():
    secret = 12345
    with server() as listening, ThreadPoolExecutor(2) as pool:
        port = listening.getsockname()[1]
        found = pool.submit(answer, listening, secret, 2)
        for greeting in (b"", b"GET /", GREETING.pack(secret + 1, 1)):
            with socket.create_connection(("localhost", port), timeout=5) as stranger:
                stranger.sendall(greeting)
                if len(greeting) < GREETING.size:
                    stranger.shutdown(socket.SHUT_WR)
                assert stranger.recv(1) == b""
        with call(port, secret, 1) as ours, found.result(5)[1] as theirs:
            theirs.sendall(b"x")
            assert ours.recv(1) == b"x"


def test_one_does_not_come(monkeypatch):
    monkeypatch.setattr(lifelines, "MEETING_SECONDS", 0.2)
    with server() as listening, pytest.raises(LostError) as refusal:
        answer(listening, 12345, 3)
    assert str(refusal.value) == (
        "the main process heard nothing of process 2, 3 of 3 within 0.2 seconds; "
        "all processes must reach each other at any port."
    )


def test_the_main_process_is_not_reached(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    with pytest.raises(LostError) as refusal:
        call(port, 12345, 1)
    assert str(refusal.value) == (
        f"process 2 does not reach the main process at 127.0.0.1, port {port}: connection refused; "
        "all processes must reach each other at any port."
    )


@pytest.mark.skipif(not hasattr(socket, "TCP_KEEPIDLE"), reason="the system does not tell how long it is silent")
def test_the_system_probes_within_a_minute():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        connection = kept_alive(socket.create_connection(listening.getsockname()))
    with connection:
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        idle, interval, n = (
            connection.getsockopt(socket.IPPROTO_TCP, getattr(socket, name))
            for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT")
        )
    assert idle + n * interval == 60
