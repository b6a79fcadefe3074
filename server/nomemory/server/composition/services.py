"""The services of one process, over its data directory or over a server elsewhere, and what it tells of itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

from nomemory.server import __version__
from nomemory.server.admission.read_admission import ReadAdmission
from nomemory.server.admission.read_threads import ReadThreads
from nomemory.server.admission.round_robin_limit import RoundRobinLimit
from nomemory.server.composition.log_store import log_store
from nomemory.server.composition.recall_host import (
    RecallSettingsError,
    answers_with_model,
    recall_service,
    remote_query,
    skill_library,
)
from nomemory.server.cursor import Cursors
from nomemory.server.data_directory import DataDirectory
from nomemory.server.hybrid.candidate_pool import CandidatePools
from nomemory.server.hybrid.ranking import Weights
from nomemory.server.hybrid.search import HybridMessages
from nomemory.server.identity.factory import checks_credentials
from nomemory.server.lexical.protocol import LexicalIndex
from nomemory.server.log.damage import LogDamage
from nomemory.server.log.protocol import LogReader
from nomemory.server.metrics import catalog
from nomemory.server.metrics.meters import Meters
from nomemory.server.metrics.samples import Samples
from nomemory.server.readers.writer_services import WriterServices
from nomemory.server.reads.conversation_listing import ConversationListing
from nomemory.server.reads.lexical_listing import LexicalListing
from nomemory.server.reads.nearest_messages import NearestMessages
from nomemory.server.reads.speakers import Speakers
from nomemory.server.reads.time_listing import TimeListing, UserListing
from nomemory.server.rpc.admitted_service import AdmittedService
from nomemory.server.rpc.call import Service
from nomemory.server.rpc.ingest_service import IngestService
from nomemory.server.rpc.query_service import QueryService
from nomemory.server.rpc.recall_stubs import InProcessQuery
from nomemory.server.rpc.server_service import ServerService
from nomemory.server.server_key import FileTokenCipher
from nomemory.server.settings import Settings
from nomemory.server.token_cipher import WriteTokens
from nomemory.server.tracing.traced import traced_log, traced_search, traced_words
from nomemory.server.vector.space import ServingSpace
from nomemory.v1 import server_service_pb2 as pb

_READ_THREADS: Final = 1
"""Rankings and highlights hold the interpreter's lock. A second thread would not make them faster, and would make the
event loop wait longer (docs/performance.md, One user's flood)."""


async def make_services(
    settings: Settings,
    directory: DataDirectory,
    writer: WriterServices,
    words: LexicalIndex,
    stack: AsyncExitStack,
    damage: LogDamage,
    meters: Meters,
) -> list[Service]:
    """Build what is served in one process; its recall reads without a socket.

    Args:
        settings: the configuration.
        directory: whose log is read.
        writer: the parts that a server has once, here or in another process.
        words: the lexical index for reading.
        stack: takes down what is opened here.
        damage: told of what is found to be damaged in the log.
        meters: what counts in this process.
    """
    threads = ReadThreads(_READ_THREADS)
    log = traced_log(log_store(settings, directory).reading(damage, stack, threads), settings)
    stack.push_async_callback(threads.close)  # before the log that they read
    words = traced_words(words, settings)
    cipher = FileTokenCipher(directory.key, (await log.identity()).name)
    tokens, cursors = WriteTokens(cipher), Cursors(cipher, settings.timing.cursor_lifetime_s)
    slots = RoundRobinLimit(settings.reads.expensive_read_concurrency)
    query = _query_service(settings, writer, words, log, tokens, cursors, slots, threads)
    ingest = IngestService(writer.log, writer.report, tokens, writer.spaces, settings)
    recall = recall_service(settings, InProcessQuery(query), (), stack, writer.spaces, meters)
    limits = settings.reads
    admission = ReadAdmission(slots, limits.max_inflight_reads_per_user, limits.max_inflight_reads_per_caller)
    meters.also(partial(_tell_load, admission, writer.spaces, meters.process))
    reads, recalls = (AdmittedService(service, admission) for service in (query, recall))
    served: list[Service] = [reads, ingest, recalls]
    return [*served, _server_service(settings, served, writer.spaces, admission)]


def recall_only_services(settings: Settings, stack: AsyncExitStack, meters: Meters) -> list[Service]:
    """Build its service of recall, and what tells of that; the stack takes them down. `meters` count.

    Raises:
        RecallSettingsError: the settings ask for what such a server cannot be, or would open a guarded log.
    """
    if settings.workers.count > 1:
        raise RecallSettingsError("a server that only recalls is one process: start several, each at its own address")
    if settings.recall.query_key is not None and not checks_credentials(settings):
        raise RecallSettingsError(
            "refusing to open a guarded QueryService to anybody on this machine: a recall service that reads with a "
            "key needs credentials of its own callers; docs/authentication.md tells how to give it some"
        )
    stub, metadata = remote_query(settings, stack)
    served: list[Service] = [recall_service(settings, stub, metadata, stack, meters=meters)]
    return [*served, _server_service(settings, served, None, None)]


def _query_service(
    settings: Settings,
    writer: WriterServices,
    words: LexicalIndex,
    log: LogReader,
    tokens: WriteTokens,
    cursors: Cursors,
    slots: RoundRobinLimit,
    threads: ReadThreads,
) -> QueryService:
    reply_max, speakers = settings.limits.reply_max_bytes, Speakers(log)
    return QueryService(
        slots,
        threads,
        log,
        TimeListing(log, cursors, reply_max, slots),
        ConversationListing(log, cursors),
        UserListing(log, cursors),
        traced_search(LexicalListing(words, log, cursors, reply_max), "page", settings),
        traced_search(NearestMessages(log, speakers, reply_max), "search", settings),
        traced_search(_hybrid(settings, words, log, speakers, slots, threads), "search", settings),
        tokens,
        writer.spaces,
        settings,
    )


def _tell_load(admission: ReadAdmission, spaces: ServingSpace, process: str, samples: Samples) -> None:
    load = admission.load()
    samples.put(catalog.READS_RUNNING, load.running, process)
    samples.put(catalog.READS_WAITING, load.waiting, process)
    samples.put(catalog.READS_USERS, load.users, process)
    samples.put(catalog.READS_REFUSED, load.refused, process)
    samples.put(catalog.QUEUE, spaces.now.queries.waiting, process, "embedder")


def _hybrid(
    settings: Settings,
    words: LexicalIndex,
    log: LogReader,
    speakers: Speakers,
    slots: RoundRobinLimit,
    threads: ReadThreads,
) -> HybridMessages:
    pools = CandidatePools(
        log,
        words,
        threads,
        speakers,
        candidates_max=settings.hybrid.candidates_max,
        timeline_max=settings.hybrid.timeline_max,
        cache_bytes=settings.hybrid.cache_bytes,
    )
    return HybridMessages(
        slots,
        threads,
        words,
        log,
        pools,
        weights=Weights().without(settings.hybrid.without.split()),
        candidates_max=settings.hybrid.candidates_max,
        reply_max_bytes=settings.limits.reply_max_bytes,
    )


QUERY, INGEST, RECALL = "query", "ingest", "recall"

_SERVICES: Final = {
    "nomemory.v1.QueryService": QUERY,
    "nomemory.v1.IngestService": INGEST,
    "nomemory.v1.RecallService": RECALL,
}
"""The feature that each service is."""


def _server_service(
    settings: Settings, served: Sequence[Service], spaces: ServingSpace | None, reads: ReadAdmission | None
) -> ServerService:
    """Make the service that describes a server.

    Args:
        settings: the server's.
        served: the other services of this server.
        spaces: what the server searches by meaning; None where another server does.
        reads: admits expensive reads; None where another server reads.
    """
    services = [_SERVICES[service.full_name] for service in served]
    embeds = spaces is not None and spaces.now.embedder.kind != "none"
    return ServerService(
        pb.GetServerInfoResponse(
            version=__version__,
            features=[*services, *_further_features(settings, services, embeds=embeds)],
            limits=_limits(settings, services),
        ),
        reads,
        spaces,
        skill_library(settings).names if RECALL in services else tuple,
    )


def _further_features(settings: Settings, services: Sequence[str], *, embeds: bool) -> Iterator[str]:
    if embeds:
        yield "semantic_search_text"
    if RECALL in services and answers_with_model(settings):
        yield "recall_model"
    if checks_credentials(settings):
        yield "authentication"
    if settings.retention.days:
        yield "retention"


def _limits(settings: Settings, services: Sequence[str]) -> pb.ServerLimits:
    """Return the bounds of the services that are served; the others stay 0."""
    limits = settings.limits
    found = pb.ServerLimits(request_bytes=limits.request_max_bytes)
    if INGEST in services:
        found.content_bytes = limits.content_max_bytes
        found.batch_messages = limits.write_batch_max
    if QUERY in services:
        found.page_size = limits.page_size_max
        found.top_k = limits.top_k_max
        found.user_reads = settings.reads.max_inflight_reads_per_user
        found.caller_reads = settings.reads.max_inflight_reads_per_caller
    if QUERY in services or RECALL in services:
        found.query_chars = limits.query_max_chars
    if RECALL in services:
        found.turns = limits.turns_max
    return found
