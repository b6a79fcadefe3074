"""What readers and the writer's process ask each other for."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nomemory.server.embedding.vector import Vector
from nomemory.server.faults import Fault, Reason, Violation
from nomemory.server.listen_address import Addresses, ListenAddress
from nomemory.server.log.damage import Damage
from nomemory.server.log.protocol import Deleted, Erased, OnConflict, Outcome, Written
from nomemory.server.message import EVERYTHING, Filter, Message, Role
from nomemory.server.processes.connection import PipeConnection
from nomemory.server.processes.frames import HEADER, pack, unpack
from nomemory.server.readers.calls import Assignment, SpaceDescription
from nomemory.server.readers.readers import ReaderCalls
from nomemory.server.readers.remote import RemoteEmbedder, RemotePart, WriterClient
from nomemory.server.readers.writer_services import WriterServices
from nomemory.server.settings import Settings
from nomemory.server.vector.active_index import ServingSpace, VectorSpace
from nomemory.server.vector.protocol import VectorHit
from nomemory.v1 import ingest_service_pb2 as pb

DESCRIPTION = SpaceDescription("space", "none", "none", 4, Path("unused"))
WORDS = "words of a message"


class Parts:
    """A log, a vector index, an embedder, its progress and a report, all of which can be watched."""

    kind, model, dimension = "none", "none", 4

    def __init__(self) -> None:
        self.written: list[Message] = []
        self.noted: list[str] = []
        self.met: list[Damage] = []
        self.asked, self.called_back = asyncio.Event(), asyncio.Event()

    async def write(self, messages: Sequence[Message], *, on_conflict: OnConflict, request_id: str = "") -> Written:
        assert (on_conflict, request_id) == (OnConflict.SKIP, "r")
        self.written += messages
        ids = tuple(message.message_id for message in messages)
        return Written(tuple(Outcome.CREATED for _ in messages), len(self.written), ids)

    async def delete(self, user_id: str, message_ids: Sequence[str]) -> Deleted:
        raise Fault(
            Reason.ERROR_REASON_OVERLOADED, user_id, violations=[Violation("f", "d")], metadata={"ids": message_ids[0]},
            retry_after_s=0.2,
        )  # fmt: skip

    async def delete_matching(self, user_id: str, narrowed: Filter) -> Deleted:
        assert (user_id, narrowed) == ("u", EVERYTHING)
        return Deleted(3, (), 8)

    async def erase(self, user_id: str) -> Erased:
        return Erased(4, 9, was_known=user_id == "u")

    async def search(self, user_id: str, vector: Vector, narrowed: Filter, limit: int) -> list[VectorHit]:
        assert (user_id, narrowed) == ("u", EVERYTHING)
        return [VectorHit(0.5, len(vector), limit)]

    async def vectors(self, user_id: str, message_ids: Sequence[str]) -> dict[str, Vector]:
        return {message_id: f"{user_id} {message_id}".encode() for message_id in message_ids}

    async def embed_query(self, _text: str) -> Vector:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.called_back.set()
        return b""

    async def embed_documents(self, texts: Sequence[str]) -> NoReturn:
        raise ZeroDivisionError(texts[0])

    async def close(self) -> None:
        return

    async def behind(self, _user_id: str, _sequence: int) -> bool:
        return False

    def look(self) -> None:
        return

    def note_query(self, user_id: str) -> None:
        self.noted.append(user_id)

    async def status(self, _user_id: str | None, _prefix: str = "") -> pb.GetIndexStatusResponse:
        return pb.GetIndexStatusResponse()

    def note_damage(self, met: Damage) -> None:
        self.met.append(met)


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Parts, WriterClient, PipeConnection]]:
    ours, theirs = socket.socketpair()
    parts, calls = Parts(), ReaderCalls()
    settings = Settings.from_environment(data="unused", embedder="none")
    spaces = ServingSpace(VectorSpace("space", parts, parts, parts, parts))
    services = WriterServices(parts, spaces, parts)
    calls.open(Assignment(settings, Addresses(ListenAddress("127.0.0.1", 1)), DESCRIPTION), services)
    serving = await PipeConnection(calls.answer, calls.describe_error).over(ours)
    pipe = await PipeConnection().over(theirs)
    yield parts, WriterClient(pipe), pipe
    pipe.close()
    async with asyncio.timeout(10):
        await serving.wait_closed()


async def test_calls_and_answers_cross_whole_however_large() -> None:
    async with connected() as (parts, writer, _):
        messages = [Message("u", f"m{n}", n, Role.USER, "长" * 100_000, metadata={"k": "v"}) for n in range(50)]
        log, vectors = RemotePart(writer, "log"), RemotePart(writer, "direct", "space")
        written = await log.write(messages, on_conflict=OnConflict.SKIP, request_id="r")
        assert (written.sequence, parts.written) == (50, messages)
        assert await vectors.search("u", b"1234", EVERYTHING, 7) == [VectorHit(0.5, 4, 7)]
        assert await log.delete_matching("u", EVERYTHING) == Deleted(3, (), 8)
        assert await log.erase("u") == Erased(4, 9, was_known=True)
        assert await vectors.vectors("u", ["a", "b"]) == {"a": b"u a", "b": b"u b"}


async def test_a_space_that_has_been_replaced_is_refused_rather_than_mixed_up() -> None:
    async with connected() as (_, writer, __):
        with pytest.raises(Fault) as raised:
            await RemotePart(writer, "direct", "former").search("u", b"1234", EVERYTHING, 7)
    assert raised.value.reason == Reason.ERROR_REASON_INDEX_UNAVAILABLE


async def test_a_fault_crosses_with_everything_that_a_caller_may_see() -> None:
    async with connected() as (_, writer, __):
        with pytest.raises(Fault) as raised:
            await RemotePart(writer, "log").delete("said", ["m"])
    fault = raised.value
    assert (fault.reason, fault.message, fault.retry_after_s) == (Reason.ERROR_REASON_OVERLOADED, "said", 0.2)
    assert (fault.violations, dict(fault.metadata)) == ((Violation("f", "d"),), {"ids": "m"})


async def test_an_unexpected_error_is_internal_and_its_words_stay_behind(capfd: pytest.CaptureFixture[str]) -> None:
    async with connected() as (_, writer, __):
        with pytest.raises(Fault, match="internal error") as raised:
            await RemoteEmbedder(writer, DESCRIPTION).embed_documents([WORDS])
    assert raised.value.reason == Reason.ERROR_REASON_INTERNAL
    assert WORDS not in capfd.readouterr().err


async def test_who_gives_up_calls_the_work_back() -> None:
    async with connected() as (parts, writer, _):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await RemoteEmbedder(writer, DESCRIPTION).embed_query("x")
        async with asyncio.timeout(10):
            await parts.called_back.wait()


async def test_what_a_lost_reader_asked_for_is_dropped() -> None:
    async with connected() as (parts, writer, pipe):
        asking = asyncio.create_task(RemoteEmbedder(writer, DESCRIPTION).embed_query("x"))
        async with asyncio.timeout(10):
            await parts.asked.wait()
            pipe.close()
            await parts.called_back.wait()
            with pytest.raises(Fault) as raised:
                await asking
        assert raised.value.reason == Reason.ERROR_REASON_STORAGE_UNAVAILABLE


texts = st.text(max_size=20)


@given(
    texts,
    st.lists(st.tuples(texts, texts), max_size=5),
    st.dictionaries(texts, texts, max_size=3),
    st.none() | st.floats(0, 9),
)
def test_every_fault_survives_the_pipe(
    message: str, bad: list[tuple[str, str]], metadata: dict[str, str], retry_after_s: float | None
) -> None:
    violations = tuple(Violation(*one) for one in bad)
    reason = Reason.ERROR_REASON_MESSAGE_CONFLICT
    fault = Fault(reason, message, violations=violations, metadata=metadata, retry_after_s=retry_after_s)
    again = unpack(pack(1, fault)[HEADER.size :])
    assert vars(again) == vars(fault)
