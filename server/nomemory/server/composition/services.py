"""The services of one process, over its data directory."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial

from nomemory.server.admission.scheduler import ReadScheduler
from nomemory.server.composition.log_store import log_store
from nomemory.server.composition.recall_host import recall_service
from nomemory.server.composition.server_info import server_service
from nomemory.server.composition.tracing import traced_log, traced_search, traced_words
from nomemory.server.cursor import Cursors
from nomemory.server.data_directory import DataDirectory
from nomemory.server.hybrid.candidate_pool import Stretches
from nomemory.server.hybrid.ranking import Weights
from nomemory.server.hybrid.search import HybridMessages
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
from nomemory.server.rpc.audit import audit_of
from nomemory.server.rpc.call import Service
from nomemory.server.rpc.in_process import InProcessQuery
from nomemory.server.rpc.ingest_service import IngestService
from nomemory.server.rpc.query_service import QueryService
from nomemory.server.server_key import FileTokenCipher
from nomemory.server.settings import Settings
from nomemory.server.token_cipher import WriteTokens


async def make_services(
    settings: Settings,
    directory: DataDirectory,
    writer: WriterServices,
    words: LexicalIndex,
    stack: AsyncExitStack,
    damage: LogDamage | None = None,
    meters: Meters | None = None,
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
    meters = meters or Meters()
    log = traced_log(log_store(settings, directory).reading(damage, stack), settings)
    words = traced_words(words, settings)
    cipher = FileTokenCipher(directory.key, (await log.identity()).name)
    tokens, cursors = WriteTokens(cipher), Cursors(cipher, settings.timing.cursor_lifetime_s)
    query = _query_service(settings, writer, words, log, tokens, cursors)
    ingest = IngestService(writer.log, writer.report, tokens, writer.spaces, settings, audit_of(settings))
    recall = recall_service(settings, InProcessQuery(query), (), stack, writer.spaces, meters.recalls)
    scheduler = ReadScheduler(settings)
    meters.also(partial(_tell_load, scheduler, meters.process))
    reads, recalls = (AdmittedService(service, scheduler, settings) for service in (query, recall))
    served: list[Service] = [reads, ingest, recalls]
    return [*served, server_service(settings, served, writer.spaces, scheduler)]


def _query_service(
    settings: Settings,
    writer: WriterServices,
    words: LexicalIndex,
    log: LogReader,
    tokens: WriteTokens,
    cursors: Cursors,
) -> QueryService:
    reply_max, speakers = settings.limits.reply_max_bytes, Speakers(log)
    return QueryService(
        log,
        TimeListing(log, cursors, reply_max),
        ConversationListing(log, cursors),
        UserListing(log, cursors),
        traced_search(LexicalListing(words, log, cursors, reply_max), "page", settings),
        traced_search(NearestMessages(log, speakers, reply_max), "search", settings),
        traced_search(_hybrid(settings, words, log, speakers), "search", settings),
        tokens,
        writer.spaces,
        settings,
    )


def _tell_load(scheduler: ReadScheduler, process: str, samples: Samples) -> None:
    load = scheduler.load()
    samples.put(catalog.READS_RUNNING, load.running, process)
    samples.put(catalog.READS_WAITING, load.waiting, process)
    samples.put(catalog.READS_USERS, load.users, process)
    samples.put(catalog.READS_REFUSED, load.refused, process)


def _hybrid(settings: Settings, words: LexicalIndex, log: LogReader, speakers: Speakers) -> HybridMessages:
    stretches = Stretches(
        log,
        words,
        speakers,
        candidates_max=settings.hybrid.candidates_max,
        timeline_max=settings.hybrid.timeline_max,
        cache_bytes=settings.hybrid.cache_bytes,
    )
    return HybridMessages(
        words,
        log,
        stretches,
        weights=Weights().without(settings.hybrid.without.split()),
        candidates_max=settings.hybrid.candidates_max,
        reply_max_bytes=settings.limits.reply_max_bytes,
    )
