"""The one place where a server is put together."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing
from types import MappingProxyType

import structlog
import uvloop

from nomemory.server.cursor import Cursors
from nomemory.server.data_directory import DataDirectory, DataDirectoryBusyError
from nomemory.server.embedding.factory import EmbedderSettingsError, choose_embedder
from nomemory.server.embedding.protocol import Embedder
from nomemory.server.embedding.query_cache import CachedEmbedder
from nomemory.server.hybrid.search import HybridMessages
from nomemory.server.hybrid.weights import Weights
from nomemory.server.identity.access import Access
from nomemory.server.identity.factory import checks_credentials, choose_authenticator
from nomemory.server.identity.settings_error import IdentitySettingsError
from nomemory.server.identity.tls import tls_files
from nomemory.server.lexical.factory import open_lexical_index, open_or_discard_lexical_index
from nomemory.server.lexical.indexer_process import LexicalIndexerProcess
from nomemory.server.lexical.protocol import LexicalIndex, LexicalProgress
from nomemory.server.listen_address import (
    ListenAddress,
    ListenAddressError,
    Protection,
    parse_listen_address,
    refuse_exposure,
)
from nomemory.server.log.protocol import ChangeFeed, LogReader, LogUnusableError, LogVersionError
from nomemory.server.log.sqlite_feed import SqliteChangeFeed
from nomemory.server.log.sqlite_reader import SqliteLogReader
from nomemory.server.log.sqlite_writer import SqliteLogWriter
from nomemory.server.logs import configure_logs
from nomemory.server.processes.reader_launch import Loading
from nomemory.server.processes.readers import Readers
from nomemory.server.processes.remote import (
    DistantEmbedder,
    DistantLog,
    DistantProgress,
    DistantReport,
    DistantVectors,
    WriterLine,
)
from nomemory.server.processes.reserved_port import reserved
from nomemory.server.processes.supervisor import Supervisor
from nomemory.server.processes.writer_calls import EmbedderFacts, Orders
from nomemory.server.processes.writer_services import WriterSide
from nomemory.server.reads.lexical_listing import LexicalListing
from nomemory.server.reads.nearest_messages import NearestMessages
from nomemory.server.reads.time_listing import TimeListing
from nomemory.server.recall_host import recall_service, remote_query
from nomemory.server.recall_planner import RecallSettingsError
from nomemory.server.rpc.call import Service
from nomemory.server.rpc.grpc_server import serving
from nomemory.server.rpc.host_interceptors import MakeInterceptors, no_interceptors
from nomemory.server.rpc.in_process import InProcessQuery
from nomemory.server.rpc.index_status import LEXICAL_JOB, VECTOR_JOB, StatusReport
from nomemory.server.rpc.ingest_service import IngestService
from nomemory.server.rpc.query_service import QueryService
from nomemory.server.settings import Settings
from nomemory.server.token_cipher import KeyFileError, TokenCipher, load_key
from nomemory.server.vector.backlog_reader import BacklogReader
from nomemory.server.vector.collection import collection_of
from nomemory.server.vector.factory import choose_vector_index
from nomemory.server.vector.indexer import VectorIndexer
from nomemory.server.vector.protocol import VectorIndex
from nomemory.server.write_token import WriteTokens

CANNOT_START = (
    DataDirectoryBusyError,
    EmbedderSettingsError,
    IdentitySettingsError,
    KeyFileError,
    ListenAddressError,
    LogUnusableError,
    LogVersionError,
    RecallSettingsError,
)
"""What `serve` raises if the server cannot start; their words are meant for the operator."""

_WRITER = 0
"""The number of the writer's process in logs; readers count from 1."""

_SWITCH_S = 0.0005
"""How long a thread that wants the interpreter's lock waits for one that has it; SQLite lets go of it at each step."""

_log = structlog.get_logger("server")


def serve(
    settings: Settings,
    ready: Callable[[ListenAddress], None] = lambda _address: None,
    readers: Mapping[int, Loading] = MappingProxyType({}),
    interceptors: MakeInterceptors = no_interceptors,
) -> None:
    """Serve until SIGTERM or SIGINT, then drain.

    Args:
        settings: the configuration.
        ready: called with the bound address once calls are answered.
        readers: what `start_readers` has started; without them they are started here.
        interceptors: makes a host's own gRPC interceptors, in each process that serves. With several workers it has to
            be a function of a module that they can import.

    Raises:
        any of CANNOT_START.
        OSError: the system refuses something; it names the file.
    """
    configure_logs(settings.log_level, None if settings.workers == 1 else _WRITER)
    sys.setswitchinterval(_SWITCH_S)
    uvloop.run(_serve(settings, ready, readers, interceptors))


async def _serve(
    settings: Settings,
    ready: Callable[[ListenAddress], None],
    readers: Mapping[int, Loading],
    interceptors: MakeInterceptors,
) -> None:
    stop = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal_number, stop.set)
    async with running(settings, readers, interceptors) as address:
        _log.info("serving", address=str(address), data=str(settings.data))
        keep_what_is_loaded()
        ready(address)
        await stop.wait()
        _log.info("draining")
    _log.info("stopped")


def keep_what_is_loaded() -> None:
    """Take all there is by now out of the garbage collector's sight: to walk it holds every call for 20 to 60 ms."""
    gc.collect()
    gc.freeze()


@asynccontextmanager
async def running(
    settings: Settings,
    readers: Mapping[int, Loading] = MappingProxyType({}),
    interceptors: MakeInterceptors = no_interceptors,
) -> AsyncIterator[ListenAddress]:
    """Run a server until the context is left. Return the address that was bound. The arguments are those of `serve`.

    Raises:
        as `serve`.
    """
    address, access = _address(settings), _access(settings)
    async with AsyncExitStack() as stack:
        if settings.recall_query_target:
            services = _recall_only(settings, stack)
            yield await stack.enter_async_context(serving(services, address, settings, access, host=interceptors()))
            return
        directory = DataDirectory(settings.data)
        stack.callback(os.close, directory.lock())
        if settings.workers == 1:
            services, _ = await _everything(settings, directory, stack)
            yield await stack.enter_async_context(serving(services, address, settings, access, host=interceptors()))
        else:
            several = Readers(settings, readers)
            yield await _with_readers(settings, directory, address, several, interceptors, stack)


async def _with_readers(
    settings: Settings,
    directory: DataDirectory,
    address: ListenAddress,
    readers: Readers,
    interceptors: MakeInterceptors,
    stack: AsyncExitStack,
) -> ListenAddress:
    """Serve here, and in further processes at the same address that read for themselves and write through this one."""
    address = stack.enter_context(reserved(address))
    stack.push_async_callback(readers.close)
    await readers.start()
    services, side = await _everything(settings, directory, stack)
    stack.push_async_callback(readers.close)  # before the parts that they ask are taken down
    readers.give(Orders(settings, address, side.embedder_facts(), interceptors), side)
    own = serving(services, address, settings, _access(settings), is_shared=True, host=interceptors())
    await stack.enter_async_context(own)
    await readers.all_serve()
    stack.callback(readers.drain)  # while this process drains
    return address


async def _everything(
    settings: Settings, directory: DataDirectory, stack: AsyncExitStack
) -> tuple[list[Service], WriterSide]:
    """Build the whole of a server over its data directory, and what its readers ask it for."""
    side, words = _Assembly(settings, directory, stack).build()
    return await _services(settings, directory, side, words, stack), side


async def reader_services(
    settings: Settings, line: WriterLine, facts: EmbedderFacts, stack: AsyncExitStack
) -> list[Service]:
    """Build what a reader serves: everything, with stand-ins for what only the writer's process has."""
    directory = DataDirectory(settings.data)
    embedder = CachedEmbedder(DistantEmbedder(line, facts), settings.embedding_cache_max)
    stack.push_async_callback(embedder.close)
    backlog = BacklogReader(collection_of(settings, directory.vectors, embedder).backlog)
    stack.callback(backlog.close)
    side = WriterSide(
        DistantLog(line), DistantVectors(line), embedder, DistantProgress(line, backlog), DistantReport(line)
    )
    words = open_lexical_index(directory.lexical)
    stack.push_async_callback(words.close)
    return await _services(settings, directory, side, words, stack)


async def _services(
    settings: Settings, directory: DataDirectory, side: WriterSide, words: LexicalIndex, stack: AsyncExitStack
) -> list[Service]:
    """Build what is served in one process; its recall reads without a socket."""
    log = _open_log(directory, stack)
    seal = TokenCipher(load_key(directory.key), await log.log_id())
    tokens, cursors = WriteTokens(seal), Cursors(seal, settings.cursor_lifetime_s)
    dimension, reply_max = side.embedder.dimension, settings.reply_max_bytes
    query = QueryService(
        log,
        TimeListing(log, cursors, reply_max),
        LexicalListing(words, log, cursors, reply_max),
        NearestMessages(side.vectors, side.embedder, side.progress, log, reply_max),
        _hybrid(settings, side, words, log),
        tokens,
        dimension,
        settings,
    )
    ingest = IngestService(side.log, side.report, tokens, dimension, settings)
    return [query, ingest, recall_service(settings, InProcessQuery(query), (), stack, dimension)]


def _open_log(directory: DataDirectory, stack: AsyncExitStack) -> LogReader:
    log = SqliteLogReader(directory.log)
    stack.push_async_callback(log.close)
    return log


def _hybrid(settings: Settings, side: WriterSide, words: LexicalIndex, log: LogReader) -> HybridMessages:
    return HybridMessages(
        words,
        side.vectors,
        side.embedder,
        side.progress,
        log,
        weights=Weights().without(settings.hybrid_without.split()),
        candidates_max=settings.hybrid_candidates_max,
        timeline_max=settings.hybrid_timeline_max,
        reply_max_bytes=settings.reply_max_bytes,
    )


def _recall_only(settings: Settings, stack: AsyncExitStack) -> list[Service]:
    """Build a server that keeps nothing: it recalls over a QueryService elsewhere."""
    if settings.workers > 1:
        raise RecallSettingsError("a server that only recalls is one process: start several, each at its own address")
    if settings.recall_query_key is not None and not checks_credentials(settings):
        raise RecallSettingsError(
            "refusing to open a guarded QueryService to anybody on this machine: a recall service that reads with a "
            "key needs credentials of its own callers; docs/authentication.md tells how to give it some"
        )
    stub, metadata = remote_query(settings, stack)
    return [recall_service(settings, stub, metadata, stack)]


def _access(settings: Settings) -> Access:
    return Access(choose_authenticator(settings), settings.id_max_chars)


def _address(settings: Settings) -> ListenAddress:
    address = parse_listen_address(settings.listen)
    credentials, tls = checks_credentials(settings), tls_files(settings) is not None
    refuse_exposure(address, Protection(credentials, tls, settings.insecure_plaintext))
    return address


class _Assembly:
    """Builds the parts that a server has once, from the log up. The stack takes them down in the opposite order."""

    def __init__(self, settings: Settings, directory: DataDirectory, stack: AsyncExitStack) -> None:
        self._settings = settings
        self._directory = directory
        self._stack = stack
        self._supervisor = Supervisor()
        self._committed = _Committed()

    def build(self) -> tuple[WriterSide, LexicalIndex]:
        """Build what a server has once, and start its background work; returns the lexical index for reading, too."""
        embedder = choose_embedder(self._settings)
        self._stack.push_async_callback(embedder.close)
        writer = self._log_writer()
        log = _open_log(self._directory, self._stack)
        lexical, words = self._lexical()
        vectors, meaning = self._vector(embedder)
        report = StatusReport(log, lexical, meaning, embedder, self._supervisor.fault)
        return WriterSide(writer, vectors, embedder, meaning, report), words

    def _log_writer(self) -> SqliteLogWriter:
        writer = SqliteLogWriter(
            self._directory.log,
            queue_max=self._settings.write_queue_max,
            queue_max_bytes=self._settings.write_queue_max_bytes,
            announce=self._committed.announce,
        )
        return self._stack.enter_context(closing(writer))

    def _open_feed(self) -> ChangeFeed:
        return SqliteChangeFeed(self._directory.log)

    def _lexical(self) -> tuple[LexicalProgress, LexicalIndex]:
        words = open_or_discard_lexical_index(self._directory.lexical)
        self._stack.push_async_callback(words.close)
        indexer = LexicalIndexerProcess(
            self._directory.log,
            self._directory.lexical,
            heap_bytes=self._settings.lexical_heap_bytes,
            batch_max=self._settings.lexical_batch_max,
            batch_bytes=self._settings.lexical_batch_bytes,
            wake=self._committed.lexical,
        )
        thread = self._supervisor.start_thread(LEXICAL_JOB, indexer.run)
        self._stack.push_async_callback(asyncio.to_thread, thread.join)
        self._stack.callback(indexer.stop)
        return indexer, words

    def _vector(self, embedder: Embedder) -> tuple[VectorIndex, VectorIndexer]:
        directory = self._directory.vectors
        index = choose_vector_index(self._settings, directory, embedder)
        self._stack.push_async_callback(index.close)
        indexer = VectorIndexer(self._open_feed, index, embedder, directory, self._settings, self._committed.vector)
        self._stack.callback(indexer.close)
        task = self._supervisor.start_task(VECTOR_JOB, indexer.run)
        self._stack.push_async_callback(asyncio.wait, [task])
        self._stack.callback(indexer.stop)
        self._stack.callback(self._supervisor.stop)
        return index, indexer


class _Committed:
    """Tells the indexers, from the log writer's thread, that there is something new."""

    def __init__(self) -> None:
        self.lexical = threading.Event()
        self.vector = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def announce(self) -> None:
        """Say that a commit was made."""
        self.lexical.set()
        self._loop.call_soon_threadsafe(self.vector.set)
