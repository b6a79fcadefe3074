"""What clients may hold of a server: requests that do not end, replies that nobody reads, streams, connections.

The server is a process, so that its memory can be measured. Freed memory goes back to the system at once
(`MALLOC_MMAP_THRESHOLD_`), so that the figures are those of what is held.
"""

from __future__ import annotations

import gc
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

import grpc
import pytest
from server.fleet import command, environment, until
from server.raw_peer import LIST, RawPeer, Stream, peers, run

from nomemory.server.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from nomemory.v1.ingest_service_pb2_grpc import IngestServiceStub
from nomemory.v1.query_service_pb2_grpc import QueryServiceStub
from served import Server as LocalServer
from talk import address_in, refusal, said

WRITE = "/nomemory.v1.IngestService/WriteMessages"
IMPORT = "/nomemory.v1.IngestService/ImportMessages"
EXPORT = "/nomemory.v1.QueryService/ExportMessages"
HEALTH = "/grpc.health.v1.Health/Check"
WATCH = "/grpc.health.v1.Health/Watch"
BIG = bytes(15_000_000)
MIB = 1024 * 1024
FEW = {
    "NOMEMORY_CONNECTIONS_MAX": "30",
    "NOMEMORY_READING_MAX": "8",
    "NOMEMORY_UPLOADS_MAX": "4",
    "NOMEMORY_UPLOAD_IDLE_S": "1",
    "NOMEMORY_WATCHES_MAX": "3",
    "NOMEMORY_UNREAD_CONNECTION_MAX_BYTES": str(8 * MIB),
    "NOMEMORY_UNREAD_MAX_BYTES": str(16 * MIB),
    "NOMEMORY_DEADLINE_DEFAULT_S": "3",
    "NOMEMORY_DEADLINE_IMPORT_S": "3",
}
RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED = "8", "4"


class Server:
    """A server as a process, and a client of it that behaves."""

    def __init__(self, process: subprocess.Popen[str], target: str, channel: grpc.Channel) -> None:
        self.target = target
        self.query = QueryServiceStub(channel)
        self.ingest = IngestServiceStub(channel)
        self._process = process
        self._before = self._resident()

    def grown_bytes(self) -> int:
        """Return how much more memory it has than when it had started."""
        return self._resident() - self._before

    def answers(self) -> bool:
        """Return whether somebody else is answered in time."""
        self.query.ListMessages(q.ListMessagesRequest(user_id="somebody else"), timeout=10)
        return True

    def _resident(self) -> int:
        listed = subprocess.run(
            ["ps", "-o", "rss=", "-p", str(self._process.pid)],  # noqa: S607 - wherever the system has it
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        return int(listed) * 1024


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server for all of these tests, with a page of two megabytes."""
    process = subprocess.Popen(
        command(), env=environment(tmp_path_factory.mktemp("bounds"), MALLOC_MMAP_THRESHOLD_="200000", **FEW),
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert process.stdout
    try:
        target = address_in(process.stdout.readline())
        with grpc.insecure_channel(target) as channel:
            page = [said("u", f"m{n}", "x" * 100_000, ts=n) for n in range(20)]
            IngestServiceStub(channel).WriteMessages(i.WriteMessagesRequest(messages=page))
        yield process, target
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture
def server(process: tuple[subprocess.Popen[str], str]) -> Iterator[Server]:
    """That server, seen by a client of its own."""
    with grpc.insecure_channel(process[1], options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        yield Server(*process, channel)


def begin(opened: Sequence[RawPeer], path: str, each: int) -> list[Stream]:
    """Begin calls whose requests say that they have one byte more than will ever come."""
    return [peer.call(path, BIG, declared=len(BIG) + 1) for peer in opened for _ in range(each)]


@pytest.mark.parametrize("path", [LIST, HEALTH], ids=["a read", "health"])
def test_requests_that_do_not_end_hold_little_and_end_at_their_deadline(server: Server, path: str) -> None:
    with peers(server.target, 4) as opened:
        calls = begin(opened, path, each=8)
        assert run(opened, lambda: any(call.is_over for call in calls), 20)
        assert server.answers()
        assert run(opened, lambda: all(call.is_over for call in calls), 20)
        assert server.grown_bytes() < 10 * 16 * MIB, "eight are read at once, of 32"
        assert {call.status for call in calls} == {RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED}
        assert run(opened, lambda: server.grown_bytes() < 8 * 16 * MIB, 20), "all that was read at once"


def test_a_request_that_gave_way_says_when_to_try_again(server: Server) -> None:
    with peers(server.target, 2) as opened:
        calls = begin(opened, LIST, each=8)
        assert run(opened, lambda: sum(call.status == RESOURCE_EXHAUSTED for call in calls) >= 8, 20)
        refused = [call.details for call in calls if call.status == RESOURCE_EXHAUSTED]
        assert all(b"ERROR_REASON_OVERLOADED" in details and b"RetryInfo" in details for details in refused)


def test_small_requests_pass_those_that_do_not_end(server: Server) -> None:
    with peers(server.target, 4) as opened:
        calls = begin(opened, LIST, each=20)
        assert run(opened, lambda: any(call.is_over for call in calls), 20)
        asked = [server.query.ListMessages.future(q.ListMessagesRequest(user_id="v"), timeout=20) for _ in range(50)]
        assert all(one.result() is not None for one in asked)


def test_a_large_request_is_read_whole(server: Server) -> None:
    large = [said("w", f"m{n}", "x" * 200_000) for n in range(70)]
    assert len(server.ingest.WriteMessages(i.WriteMessagesRequest(messages=large), timeout=20).results) == 70


def test_a_call_without_a_request_is_refused(server: Server) -> None:
    with grpc.insecure_channel(server.target) as channel:
        call: grpc.StreamUnaryMultiCallable[bytes, bytes] = channel.stream_unary(LIST)
        with pytest.raises(grpc.RpcError) as error:
            call(iter(()), timeout=10)
    assert refusal(error.value).reason == "MALFORMED_REQUEST"


def test_imports_that_send_half_a_batch_are_few_and_give_way(server: Server) -> None:
    with peers(server.target, 2) as opened:
        calls = begin(opened, IMPORT, each=8)
        assert run(opened, lambda: sum(call.status == RESOURCE_EXHAUSTED for call in calls) >= 12, 20)
        assert server.grown_bytes() < 10 * 16 * MIB, "eight are read at once, of 32"
        batch = i.ImportMessagesRequest(messages=[said("w", "m", "x")])
        assert until(lambda: imports(server, batch))


def imports(server: Server, batch: i.ImportMessagesRequest) -> bool:
    """Return whether an import gets through."""
    try:
        server.ingest.ImportMessages(iter([batch]), timeout=10)
    except grpc.RpcError as error:
        return refusal(error).reason != "OVERLOADED"
    return True


def test_replies_that_nobody_reads_hold_little_and_further_ones_are_refused(server: Server) -> None:
    request = q.ListMessagesRequest(user_id="u", page_size=20).SerializeToString()
    with peers(server.target, 4, window=0) as opened:
        calls = [peer.call(LIST, request) for peer in opened for _ in range(20)]
        assert run(opened, lambda: sum(call.status == RESOURCE_EXHAUSTED for call in calls) >= 60, 20)
        assert all(b"RetryInfo" in call.details for call in calls if call.status == RESOURCE_EXHAUSTED)
        assert server.grown_bytes() < 120 * MIB
        assert server.answers()
    assert until(lambda: server.grown_bytes() < 100 * MIB), "who has gone holds nothing"


def test_exports_that_nobody_reads_hold_a_batch_each(server: Server) -> None:
    request = q.ExportMessagesRequest(user_id="u").SerializeToString()
    with peers(server.target, 2, window=0) as opened:
        calls = [peer.call(EXPORT, request) for peer in opened for _ in range(3)]
        assert run(opened, lambda: all(call.has_headers for call in calls), 20)
        assert server.grown_bytes() < 120 * MIB
        assert server.answers()


def test_who_reads_no_reply_is_closed_with_the_age_of_its_connection(
    start: Callable[[Settings], AbstractContextManager[LocalServer]], own_settings: Settings
) -> None:
    aging = own_settings.with_changes(connection_age_s=1.0, connection_grace_s=1.0)
    with start(aging) as server, peers(server.target, 1, window=0) as (peer,):
        server.ingest.WriteMessages(i.WriteMessagesRequest(messages=[said("u", "m", "x" * 100)]))
        unread = [peer.call(LIST, q.ListMessagesRequest(user_id="u").SerializeToString())]
        unread.append(peer.call(EXPORT, q.ExportMessagesRequest(user_id="u").SerializeToString()))
        assert run([peer], lambda: all(call.has_headers for call in unread), 20)
        assert until(lambda: has_ended(peer))


def has_ended(peer: RawPeer) -> bool:
    """Return whether the server has closed the connection, and not only said that it is going to."""
    try:
        return peer.socket.recv(1_000_000) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def test_who_reads_gets_more_than_may_be_unread(server: Server) -> None:
    for _ in range(10):
        assert len(server.query.ListMessages(q.ListMessagesRequest(user_id="u", page_size=20)).items) == 20


def test_a_connection_has_so_many_calls_at_once(server: Server) -> None:
    with peers(server.target, 1) as opened:
        assert run(opened, lambda: opened[0].allowed_streams() == 100, 10)


def test_watchers_of_the_servers_health_give_way(server: Server) -> None:
    with peers(server.target, 2) as opened:
        first = [opened[0].call(WATCH, b"") for _ in range(3)]
        assert run(opened, lambda: all(call.received for call in first), 10)
        newcomer = opened[1].call(WATCH, b"")
        assert run(opened, lambda: newcomer.received > 0, 10)
        assert run(opened, lambda: [call.status for call in first].count(RESOURCE_EXHAUSTED) == 1, 10)


def test_connections_beyond_the_most_are_closed_and_the_others_stay(server: Server) -> None:
    assert server.answers()
    with peers(server.target, 50) as opened:
        assert run(opened, lambda: sum(peer.is_closed for peer in opened) >= 20, 20)
        assert server.answers()


def test_silent_connections_make_room_after_a_while_and_one_with_a_call_stays(
    start: Callable[[Settings], AbstractContextManager[LocalServer]], own_settings: Settings
) -> None:
    few = own_settings.with_changes(connections_max=10, connection_idle_s=1.0)
    with start(few) as server, peers(server.target, 10) as opened:
        watching, checked, *silent = opened
        watch, health = watching.call(WATCH, b""), checked.call(HEALTH, b"")
        assert run(opened, lambda: watch.received > 0 and health.status == "0", 20)
        assert run(opened, lambda: all(peer.is_closed for peer in [checked, *silent]), 20)
        assert not watching.is_closed
        with peers(server.target, 1) as (newcomer,):
            whole = newcomer.call(LIST, q.ListMessagesRequest(user_id="u").SerializeToString())
            assert run([newcomer], lambda: whole.status == "0", 20)


def test_the_reply_of_a_write_is_not_refused_for_others_that_are_unread(
    start: Callable[[Settings], AbstractContextManager[LocalServer]], own_settings: Settings
) -> None:
    small = own_settings.with_changes(unread_connection_max_bytes=1024)
    many = i.WriteMessagesRequest(messages=[said("w", f"m{n}", "x") for n in range(300)]).SerializeToString()
    with start(small) as server, peers(server.target, 1, window=0) as (peer,):
        server.ingest.WriteMessages(i.WriteMessagesRequest(messages=[said("u", "m", "x" * 100)]))
        unread = peer.call(LIST, q.ListMessagesRequest(user_id="u").SerializeToString())
        assert run([peer], lambda: unread.has_headers, 20)
        write = peer.call(WRITE, many)
        peer.turn()
        peer.take(write)
        assert run([peer], lambda: write.is_over, 20)
        assert (write.status, unread.is_over) == ("0", False)


@pytest.mark.parametrize("path", [LIST, HEALTH], ids=["a read", "health"])
def test_what_a_refused_request_held_is_let_go_without_a_collection_of_garbage(
    start: Callable[[Settings], AbstractContextManager[LocalServer]], own_settings: Settings, path: str
) -> None:
    with start(own_settings.with_changes(deadline_default_s=1.0, reading_max=8)) as server:
        gc.collect()
        gc.disable()
        try:
            with peers(server.target, 4) as opened:
                calls = begin(opened, path, each=4)
                assert run(opened, lambda: all(call.is_over for call in calls), 20)
            assert {call.status for call in calls} == {RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED}
            assert until(lambda: not any(type(one).__name__ == "_ServicerContext" for one in gc.get_objects()))
        finally:
            gc.enable()


def test_a_client_may_ping_as_often_as_the_setting_says_and_no_more(
    start: Callable[[Settings], AbstractContextManager[LocalServer]], own_settings: Settings
) -> None:
    with start(own_settings.with_changes(client_ping_s=1.0)) as server, peers(server.target, 2) as (patient, hasty):
        for _ in range(5):
            patient.ping()
            assert not run([patient], lambda: patient.is_closed, 1.3)
        for _ in range(5):
            hasty.ping()
        assert run([hasty], lambda: hasty.is_closed, 20)
