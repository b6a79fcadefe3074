"""A worker's end of its connection."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator

import pytest

from nomemory.server.processes.ipc_protocol import Call, Cancel, encode
from nomemory.server.processes.ipc_worker import WorkerPipe


@pytest.fixture
def signals() -> Iterator[None]:
    """Restore what a worker's pipe does to the signals of its process, which the processes of other tests inherit."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("signals")
def test_a_worker_drops_a_call_that_is_cancelled_before_it_begins() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        pipe = WorkerPipe(theirs.detach())
        for call_id, text in ((1, "first"), (2, "cancelled"), (3, "third")):
            ours.sendall(encode(Call(call_id, text)))
        assert pipe.receive_one().request == "first"
        ours.sendall(encode(Cancel(2)))
        assert pipe.receive_one().request == "third"
        ours.sendall(encode(Call(4, "unanswered")))
        ours.shutdown(socket.SHUT_RDWR)
        with pytest.raises(EOFError):
            pipe.receive_one()
        pipe.close()
