"""Construction of the services of a server or of a recall-only server."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial
from typing import Final

from nomemory.server.api.admission.read_admission import ReadAdmission
from nomemory.server.api.identity.factory import requires_credentials
from nomemory.server.api.service import Service
from nomemory.server.api.services.ingest_service import IngestService
from nomemory.server.api.services.query_service import QueryService
from nomemory.server.api.services.recall_stubs import InProcessQueryStub
from nomemory.server.api.write_tokens import WriteTokens
from nomemory.server.runtime.active_faults import ActiveFaults
from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.runtime.metrics import catalog
from nomemory.server.runtime.metrics.meters import Meters
from nomemory.server.runtime.metrics.samples import Samples
from nomemory.server.runtime.read_threads import ReadThreads
from nomemory.server.runtime.round_robin_limit import RoundRobinLimit
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.startup_errors import StartupError
from nomemory.server.runtime.token_keys import FileTokenCipher
from nomemory.server.runtime.tracing.traced import trace_lexical_index, trace_log_reader, trace_search
from nomemory.server.runtime.wiring.recall_planner import RecallSettingsError
from nomemory.server.runtime.wiring.recall_wiring import make_recall_service
from nomemory.server.runtime.wiring.remote_query import open_remote_query
from nomemory.server.runtime.wiring.server_components import ServerComponents
from nomemory.server.runtime.wiring.server_info import make_server_service
from nomemory.server.search.conversation_listing import ConversationListing
from nomemory.server.search.cursor import CursorCodec
from nomemory.server.search.hybrid.candidate_pool import CandidatePoolReader
from nomemory.server.search.hybrid.search import HybridSearch
from nomemory.server.search.hybrid.weights import STEPS, RankingWeights
from nomemory.server.search.lexical.protocol import LexicalIndex
from nomemory.server.search.lexical_listing import LexicalListing
from nomemory.server.search.semantic.active_index import ActiveSpace
from nomemory.server.search.semantic_search import SemanticSearch
from nomemory.server.search.speakers import SpeakerNameSampler
from nomemory.server.search.time_listing import TimeListing
from nomemory.server.search.user_listing import UserListing
from nomemory.server.store.protocol import LogReader

_TIMELINE_MAX: Final = 1000
"""Maximum number of messages of a user for which all messages are ranked; otherwise, candidates are ranked."""

_SEMANTIC_HITS_MAX: Final = 256
"""Maximum number of semantic hits of a user for whom all messages are ranked."""

_CANDIDATES_MAX: Final = 128
"""Maximum number of candidates of a larger user, from each index and from both indexes together."""


async def make_services(
    settings: Settings, directory: DataDirectory, components: ServerComponents, meters: Meters, stack: AsyncExitStack
) -> tuple[list[Service], ReadAdmission]:
    """Construct the services of a server, and the admission control of their expensive reads."""
    log, lexical = trace_log_reader(components.log, settings), trace_lexical_index(components.lexical, settings)
    cipher = FileTokenCipher(directory.token_key, (await log.read_identity()).name)
    tokens, cursors = WriteTokens(cipher), CursorCodec(cipher, settings.timing.cursor_lifetime_s)

    slots, threads = RoundRobinLimit(settings.reads.expensive_read_concurrency), components.threads
    reply_max, speakers = settings.limits.max_response_bytes, SpeakerNameSampler(log)
    query = QueryService(
        slots,
        threads,
        log,
        TimeListing(log, cursors, reply_max, slots),
        ConversationListing(log, cursors),
        UserListing(log, cursors),
        trace_search(LexicalListing(lexical, log, cursors, reply_max), "read_page", settings),
        trace_search(SemanticSearch(log, speakers, reply_max), "search", settings),
        trace_search(_create_hybrid_search(settings, lexical, log, speakers, slots, threads), "search", settings),
        tokens,
        components.spaces,
        settings,
    )
    ingest = IngestService(components.writer, components.report, tokens, components.spaces, settings)
    recall = make_recall_service(
        settings,
        InProcessQueryStub(query),
        (),
        stack,
        meters=meters,
        faults=components.faults,
        spaces=components.spaces,
    )

    limits = settings.reads
    admission = ReadAdmission(slots, limits.max_inflight_reads_per_user, limits.max_inflight_reads_per_caller)
    meters.add_source(partial(_sample_reads, admission, components.spaces))
    served: list[Service] = [query, ingest, recall]
    return [*served, make_server_service(settings, served, components.spaces, admission)], admission


def make_recall_only_services(
    settings: Settings, meters: Meters, faults: ActiveFaults, stack: AsyncExitStack
) -> list[Service]:
    """Construct the services of a recall-only server, which reads from the QueryService of another server.

    Raises:
        RecallSettingsError: the settings are contradictory, or would expose a protected server without authentication.
    """
    if settings.recall.upstream_api_key is not None and not requires_credentials(settings):
        raise RecallSettingsError(
            "NOMEMORY_RECALL_UPSTREAM_API_KEY is set but callers are not authenticated: any local process could read "
            "the upstream server's messages. Configure credentials, see docs/authentication.md"
        )
    stub, metadata = open_remote_query(settings, stack)
    recall: Service = make_recall_service(settings, stub, metadata, stack, meters=meters, faults=faults)
    return [recall, make_server_service(settings, [recall])]


def _create_hybrid_search(
    settings: Settings,
    lexical: LexicalIndex,
    log: LogReader,
    speakers: SpeakerNameSampler,
    slots: RoundRobinLimit,
    threads: ReadThreads,
) -> HybridSearch:
    pools = CandidatePoolReader(
        log,
        lexical,
        threads,
        candidates_max=_CANDIDATES_MAX,
        timeline_max=_TIMELINE_MAX,
        cache_bytes=settings.hybrid.cache_bytes,
    )
    return HybridSearch(
        slots,
        threads,
        lexical,
        log,
        pools,
        speakers,
        weights=_parse_weights(settings),
        semantic_hits_max=_SEMANTIC_HITS_MAX,
        max_response_bytes=settings.limits.max_response_bytes,
    )


def _parse_weights(settings: Settings) -> RankingWeights:
    omitted = settings.hybrid.disabled_features.split()
    if unknown := sorted(set(omitted) - set(STEPS)):
        raise StartupError(
            f"NOMEMORY_HYBRID_DISABLED_FEATURES: unknown ranking steps: {', '.join(unknown)}; "
            f"available: {', '.join(STEPS)}"
        )
    return RankingWeights().disable_steps(omitted)


def _sample_reads(admission: ReadAdmission, spaces: ActiveSpace, samples: Samples) -> None:
    load = admission.get_current_load()
    samples.set_value(catalog.READS_RUNNING, load.running)
    samples.set_value(catalog.READS_WAITING, load.waiting)
    samples.set_value(catalog.READS_USERS, load.users)
    samples.set_value(catalog.READS_REJECTED, load.refused)
    samples.set_value(catalog.QUEUE, spaces.current_space.queries.waiting, "embedder")
