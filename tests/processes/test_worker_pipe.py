"""A worker's end of its pipe."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator

import pytest

from nomemory.server.processes.frames import Withdrawal, pack
from nomemory.server.processes.worker_pipe import WorkerPipe


@pytest.fixture
def signals() -> Iterator[None]:
    """Restore what a worker's pipe does to the signals of its process, which the processes of other tests inherit."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("signals")
def test_a_worker_drops_what_is_withdrawn_while_it_answers_something_else() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        pipe = WorkerPipe(theirs.detach())
        for call_id, text in ((1, "first"), (2, "given up"), (3, "third")):
            ours.sendall(pack(call_id, text))
        assert pipe.receive_one().request == "first"
        ours.sendall(pack(2, Withdrawal()))
        assert pipe.receive_one().request == "third"
        ours.sendall(pack(4, "left behind"))
        ours.shutdown(socket.SHUT_RDWR)
        with pytest.raises(EOFError):
            pipe.receive_one()
        pipe._socket.close()
