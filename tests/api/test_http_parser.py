"""The head of a connection's first request chooses the parser, however it arrives."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from fakes.script import Gate, Hang, Script, tone
from fakes.service import RunningService, assert_ended
from gateway.http_parser import MAX_HEAD_BYTES, needs_h11

if TYPE_CHECKING:
    from fakes.triton import FakeTriton

LIVEZ = b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"


def connect(service: RunningService) -> socket.socket:
    return socket.create_connection(("127.0.0.1", service.port), timeout=10)


def read_all(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(65_536), b""))


@pytest.mark.parametrize(
    ("head", "is_for_h11"),
    [
        (b"POST / HTTP/1.1\r\nhost: x", False),
        (b"POST / HTTP/1.0\r\nhost: x", True),
        (b"POST / HTTP/1.1\r\nUpgrade: h2c\r\nconnection: Upgrade", True),
        (b"POST / HTTP/1.1\r\nx: upgrade: h2c", False),
        (b"POST /HTTP/1.0 HTTP/1.1\r\nhost: x", False),
    ],
)
def test_h11_gets_what_httptools_reads_wrongly(head: bytes, is_for_h11: bool) -> None:  # noqa: FBT001
    assert needs_h11(head) is is_for_h11


def test_a_head_may_come_byte_by_byte(service: RunningService) -> None:
    with connect(service) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in LIVEZ:
            connection.sendall(bytes([byte]))

        assert read_all(connection).startswith(b"HTTP/1.1 200 OK\r\n")


def test_a_head_without_end_is_refused(service: RunningService) -> None:
    with connect(service) as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\n" + b"x" * MAX_HEAD_BYTES + b" y\r\n\r\n")

        assert read_all(connection).startswith(b"HTTP/1.1 400 ")


def test_who_has_asked_nothing_does_not_hold_up_the_end(triton: FakeTriton) -> None:
    with RunningService(triton) as service:
        connection = connect(service)
        service.client.get("/livez")

    with connection:
        assert read_all(connection) == b""


def test_one_who_asks_twice_at_once_and_leaves_is_seen_to_leave(triton: FakeTriton) -> None:
    """His second request waits for the first, which is the one that must end."""
    gate = Gate()
    triton.script = Script([gate, *[tone(24_000)] * 4, Hang()])
    with RunningService(triton) as service:
        connection = service.send(times=2)
        assert triton.seen.started.wait(1)
        connection.close()
        gate.open()

        assert_ended(service, triton, cancelled=1)
