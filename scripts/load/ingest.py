"""Benchmarks of bulk writes, imports, single writes and steady writes, with plain SQLite as a reference."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import grpc
import uvloop
from load.closed_loop import call_all, open_methods
from load.corpus import BATCH, Corpus, CorpusSample, CorpusSize

from nomemory.server.store.sqlite.schema import open_writable_log
from nomemory.v1 import message_pb2
from nomemory.v1.ingest_service_pb2 import WriteMessagesRequest, WriteMessagesResponse
from nomemory.v1.query_service_pb2 import LexicalSearchRequest, LexicalSearchResponse

_Call = Callable[[], Awaitable[bytes]]

WRITE = "/nomemory.v1.IngestService/WriteMessages"
IMPORT = "/nomemory.v1.IngestService/ImportMessages"
SEARCH = "/nomemory.v1.QueryService/LexicalSearch"

_WRITERS = 8
_STREAMS = 4
_PACED_BATCH = 100


@dataclass(frozen=True, slots=True)
class PhaseOutcome:
    """The outcome of writing one phase of the corpus.

    Attributes:
        seconds: time until the last acknowledgement.
        began_at: Unix time at which writing began.
        sample: the written messages that requests can refer to.
    """

    messages: int
    seconds: float
    began_at: float
    sample: CorpusSample


@dataclass(frozen=True, slots=True)
class SingleWriteOutcome:
    """Latencies of single writes on an idle server, until the acknowledgement and until a search returns the write."""

    acknowledged_ms: list[float]
    visible_ms: list[float]


def run_write_phase(target: str, size: CorpusSize, phase: int) -> PhaseOutcome:
    """Write one phase of the corpus in batches, with concurrent callers."""
    return uvloop.run(_run_write_phase(target, size, phase))


def run_import_phase(target: str, size: CorpusSize, phase: int, part: int = 0, parts: int = 1) -> PhaseOutcome:
    """Import one phase of the corpus, or one part of it, in concurrent streams that rotate over the targets."""
    return uvloop.run(_run_import_phase(target, size, phase, part, parts))


async def _run_write_phase(target: str, size: CorpusSize, phase: int) -> PhaseOutcome:
    corpus = Corpus(size, phase)
    batches = list(corpus.generate_batches())
    async with AsyncExitStack() as stack:
        channels = await open_methods(stack, target, WRITE, _WRITERS)
        calls = [_make_batch_call(channels[n % _WRITERS], batch) for n, batch in enumerate(batches)]
        began, began_at = time.perf_counter(), time.time()
        await call_all(calls, _WRITERS)
        return PhaseOutcome(size.get_phase_counts(phase)[0], time.perf_counter() - began, began_at, corpus.sample)


def _make_batch_call(method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes], batch: bytes) -> _Call:
    return lambda: method(batch)


async def _run_import_phase(target: str, size: CorpusSize, phase: int, part: int, parts: int) -> PhaseOutcome:
    corpus = Corpus(size, phase)
    batches = list(corpus.generate_batches())[part::parts]
    targets = target.split()
    async with AsyncExitStack() as stack:
        channels = [await stack.enter_async_context(grpc.aio.insecure_channel(item)) for item in targets]
        imports: list[grpc.aio.StreamUnaryMultiCallable[bytes, bytes]] = [
            channel.stream_unary(IMPORT) for channel in channels
        ]
        began, began_at = time.perf_counter(), time.time()
        await asyncio.gather(
            *(imports[n % len(imports)](_stream_batches(batches[n::_STREAMS])) for n in range(_STREAMS))
        )
        messages = size.get_phase_counts(phase)[0] // parts
        return PhaseOutcome(messages, time.perf_counter() - began, began_at, corpus.sample)


async def _stream_batches(batches: Sequence[bytes]) -> AsyncIterator[bytes]:
    for batch in batches:
        yield batch


def measure_single_writes(target: str, count: int) -> SingleWriteOutcome:
    """Write one message at a time; after each acknowledgement, search for the unique word of the message."""
    return uvloop.run(_measure_single_writes(target, count))


async def _measure_single_writes(target: str, count: int) -> SingleWriteOutcome:
    singles = SingleWriteOutcome([], [])
    async with AsyncExitStack() as stack:
        (write,) = await open_methods(stack, target, WRITE, 1)
        (search,) = await open_methods(stack, target, SEARCH, 1)
        for n in range(count):
            word = f"w{time.time_ns():x}"
            batch = WriteMessagesRequest(messages=[_build_message(f"single{n % 10}", word, f"{word} single write")])
            began = time.perf_counter()
            token = WriteMessagesResponse.FromString(await write(batch.SerializeToString())).write_token
            singles.acknowledged_ms.append(1000 * (time.perf_counter() - began))
            query = LexicalSearchRequest(user_id=f"single{n % 10}", query_text=word, at_least=token)
            reply = LexicalSearchResponse.FromString(await search(query.SerializeToString()))
            if [item.message_id for item in reply.items] != [word]:
                raise AssertionError(f"the search with a write token did not return the message {word}")
            singles.visible_ms.append(1000 * (time.perf_counter() - began))
    return singles


def write_at_constant_rate(target: str, per_second: int, seconds: float) -> float:
    """Write messages at a constant rate; return the achieved rate in messages per second."""
    return uvloop.run(_write_at_constant_rate(target, per_second, seconds))


async def _write_at_constant_rate(target: str, per_second: int, seconds: float) -> float:
    run = f"{time.time_ns():x}"
    batches = [
        WriteMessagesRequest(
            messages=[
                _build_message(f"writer{n % 50}", f"{run}-{at}-{n}", f"steady words 稳定的文字 {at} {n}")
                for n in range(_PACED_BATCH)
            ]
        ).SerializeToString()
        for at in range(int(per_second * seconds / _PACED_BATCH))
    ]
    async with AsyncExitStack() as stack:
        (method,) = await open_methods(stack, target, WRITE, 1)
        began, pending = time.perf_counter(), set[asyncio.Task[None]]()
        for at, batch in enumerate(batches):
            await asyncio.sleep(began + at * _PACED_BATCH / per_second - time.perf_counter())
            pending.add(asyncio.ensure_future(_await_reply(method, batch)))
        await asyncio.gather(*pending)
        return len(batches) * _PACED_BATCH / (time.perf_counter() - began)


async def _await_reply(method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes], batch: bytes) -> None:
    await method(batch)


def _build_message(user_id: str, message_id: str, content: str) -> message_pb2.ChatMessage:
    message = message_pb2.ChatMessage(
        user_id=user_id, message_id=message_id, role=message_pb2.ROLE_USER, content=content
    )
    message.ts.GetCurrentTime()
    return message


def insert_into_sqlite(path: Path, size: CorpusSize, phase: int, tuning: Sequence[str] = ()) -> float:
    """Insert one phase of the corpus into SQLite with one commit per batch; return the elapsed seconds.

    The schema and the durability settings are those of the message log.
    """
    batches = [_build_rows(batch) for batch in Corpus(size, phase).generate_batches()]
    connection = open_writable_log(path)
    for pragma in tuning:
        connection.execute(pragma)
    began = time.perf_counter()
    for number, (rows, vectors) in enumerate(batches):
        connection.execute("BEGIN IMMEDIATE")
        numbered = [(*row[:3], number * BATCH + n, *row[3:]) for n, row in enumerate(rows)]
        connection.executemany("INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, NULL, 0)", numbered)
        connection.executemany("INSERT INTO embeddings VALUES (?, ?, ?)", vectors)
        connection.execute("COMMIT")
    seconds = time.perf_counter() - began
    connection.close()
    return seconds


def _build_rows(batch: bytes) -> tuple[list[tuple[str, int, str, int, str, bytes]], list[tuple[str, str, bytes]]]:
    rows, vectors = [], []
    for message in WriteMessagesRequest.FromString(batch).messages:
        if message.embedding:
            vectors.append((message.user_id, message.message_id, bytes(4 * len(message.embedding))))
            message.ClearField("embedding")
        ts_us = message.ts.ToMicroseconds()
        rows.append(
            (
                message.user_id,
                ts_us,
                message.message_id,
                int(message.role),
                message.conversation_id,
                message.SerializeToString(),
            )
        )
    return rows, vectors
