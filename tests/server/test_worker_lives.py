"""How the processes of one server begin and end: together, and never beside another server."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import grpc
import pytest
from server.fleet import Fleet, command, connected, environment, fleet, is_running, until

from nomemory.server.composition.reader import serve
from nomemory.server.listen_address import ListenAddress, ListenAddressError
from nomemory.server.processes.reserved_port import reserved
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from nomemory.v1.ingest_service_pb2_grpc import IngestServiceStub
from nomemory.v1.query_service_pb2_grpc import QueryServiceStub
from talk import ids, said


def write(channel: grpc.Channel, message_id: str) -> None:
    IngestServiceStub(channel).WriteMessages(i.WriteMessagesRequest(messages=[said("u", message_id, "x")]), timeout=30)


def listed(channel: grpc.Channel) -> list[str]:
    return ids(QueryServiceStub(channel).ListMessages(q.ListMessagesRequest(user_id="u", page_size=500)).items)


def served_by(running: Fleet) -> int:
    with connected(running.target) as channel:
        return running.worker_of(channel)


def test_a_reader_that_dies_is_started_again_and_the_others_go_on(tmp_path: Path) -> None:
    with fleet(tmp_path / "data", 2) as running:
        channels = running.channels()
        write(channels[1], "before")
        (first,) = running.readers()
        subprocess.run(["kill", "-KILL", str(first)], check=True)  # noqa: S607 - wherever the system has it
        assert listed(channels[0]) == ["before"]
        assert until(lambda: [line["event"] for line in running.lines()].count("serving") == 3)
        assert first not in running.readers()
        assert until(lambda: served_by(running) == 1)
        write(running.channels()[1], "after")
        assert sorted(listed(channels[0])) == ["after", "before"]


def test_a_reader_that_takes_too_much_memory_is_named_and_replaced_and_the_writer_serves(tmp_path: Path) -> None:
    bounds = {"NOMEMORY_WORKERS_MEMORY_BYTES": str(20 << 20), "NOMEMORY_WORKERS_START_S": "0.1"}
    with (
        fleet(tmp_path / "data", 2, connected, NOMEMORY_PROCESS_HEARTBEAT_S="0.1", **bounds) as running,
        connected(running.target) as channel,
    ):
        ask = IngestServiceStub(channel).GetIndexStatus

        def named() -> list[tuple[str, str]]:
            faults = ask(i.GetIndexStatusRequest(), timeout=30, wait_for_ready=True).faults
            return [(fault.part, fault.kind) for fault in faults]

        assert until(lambda: named() == [("reader-1", "MEMORY_EXCEEDED")])
        assert until(lambda: "a worker has died and is started again" in [line["event"] for line in running.lines()])
        write(channel, "written")
        assert listed(channel) == ["written"]


def test_readers_end_with_the_writer_and_the_next_server_finds_everything(tmp_path: Path) -> None:
    with fleet(tmp_path / "data", 3) as running:
        for number, channel in running.channels().items():
            write(channel, f"m{number}")
        readers, target = running.readers(), running.target
        assert len(readers) == 2
        running.process.kill()
        running.process.wait()
        assert until(lambda: not any(map(is_running, readers)), longest_s=5)
    with fleet(tmp_path / "data", 2, NOMEMORY_LISTEN=target) as again:
        assert all(sorted(listed(channel)) == ["m0", "m1", "m2"] for channel in again.channels().values())


def test_sigterm_drains_every_worker_and_loses_nothing(tmp_path: Path) -> None:
    acknowledged: list[str] = []
    with fleet(tmp_path / "data", 2) as running:
        channels, readers = running.channels(), running.readers()
        busy = {number: threading.Event() for number in channels}

        def keep_writing(number: int, channel: grpc.Channel) -> None:
            for n in range(100_000):
                try:
                    write(channel, f"w{number}-{n}")
                except grpc.RpcError as error:
                    assert error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)  # noqa: PT017
                    return
                acknowledged.append(f"w{number}-{n}")
                if n > 5:
                    busy[number].set()

        writers = [threading.Thread(target=keep_writing, args=work) for work in channels.items()]
        for writer in writers:
            writer.start()
        assert all(event.wait(30) for event in busy.values())
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(30) == 0
        for writer in writers:
            writer.join(30)
        assert not any(map(is_running, readers))
        assert [line["event"] for line in running.lines()].count("draining") == 2
        assert not [line for line in running.lines() if line["level"] in ("error", "warning")]
    with fleet(tmp_path / "data", 1) as again, connected(again.target) as channel:
        request = q.BatchGetMessagesRequest(user_id="u", message_ids=acknowledged[-500:])
        assert not QueryServiceStub(channel).BatchGetMessages(request).missing_message_ids


@pytest.mark.parametrize(("first", "second"), [(1, 2), (2, 1)])
def test_a_port_belongs_to_one_server(tmp_path: Path, first: int, second: int) -> None:
    with fleet(tmp_path / "first", first) as running:
        late = subprocess.run(
            command("--listen", running.target), env=environment(tmp_path / "second", second), capture_output=True,
            text=True, timeout=60, check=False,
        )  # fmt: skip
        assert late.returncode != 0
        assert "taken" in late.stderr
        assert "Traceback" not in late.stderr


def test_a_reader_whose_writer_gave_up_before_it_had_loaded_ends_without_a_word() -> None:
    writer, reader = socket.socketpair()
    writer.close()
    with reader:
        assert asyncio.run(serve(reader, 1)) == 1


def test_a_reserved_port_is_for_one_only_however_many_want_it_at_once() -> None:
    with reserved(ListenAddress("127.0.0.1", 0)) as address:
        pass
    begin, end = threading.Barrier(4), threading.Barrier(4)

    def attempt(_number: int) -> bool:
        begin.wait(10)
        try:
            with reserved(address):
                end.wait(10)
        except ListenAddressError:
            end.wait(10)
            return False
        return True

    with ThreadPoolExecutor(4) as threads:
        winners = [sum(threads.map(attempt, range(4))) for _ in range(200)]
    assert max(winners) == 1


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "0.0.0.0", "::"])  # noqa: S104 - nothing listens there
def test_a_reserved_port_is_found_on_every_address_of_a_name(host: str) -> None:
    with reserved(ListenAddress(host, 0)) as address:
        assert address.port
        with pytest.raises(ListenAddressError, match="taken"), reserved(address):
            pass
    with reserved(address) as again:
        assert again == address


def test_connections_grow_old_without_hurting_calls(tmp_path: Path) -> None:
    with (
        fleet(tmp_path / "data", 2, NOMEMORY_WORKERS_CONNECTION_S="1") as running,
        connected(running.target) as channel,
    ):
        first, end = running.worker_of(channel), time.monotonic() + 3

        def slowly() -> Iterator[i.ImportMessagesRequest]:
            while time.monotonic() < end:
                yield i.ImportMessagesRequest(messages=[said("u", uuid4().hex, "x")])
                time.sleep(0.1)

        importing = IngestServiceStub(channel).ImportMessages.future(slowly(), timeout=30)
        calls = 0
        while time.monotonic() < end:
            listed(channel)
            calls += 1
        assert importing.result().created == len(listed(channel)) > 10
        assert calls > 10
        assert until(lambda: running.worker_of(channel) != first)
