"""Tests for the assembly of a scrape: faults, an unreadable log, and the embedder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import numpy as np
import pytest
from metrics.scraping import read, scraped

from nomemory.server.embedding.protocol import build_embedder_unavailable_fault
from nomemory.server.embedding.vector import Vector
from nomemory.server.embedding.wrappers import CachedEmbedder, MeteredEmbedder
from nomemory.server.faults import Fault, Reason
from nomemory.server.runtime.active_faults import QDRANT, UNREACHABLE, ActiveFaults
from nomemory.server.runtime.metrics import catalog
from nomemory.server.runtime.metrics.meters import Meters
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.wiring.server_metrics import ServerMetrics
from nomemory.v1 import ingest_service_pb2 as pb
from running_server import Server


class Unreadable:
    """A status report on an unreadable log."""

    async def read_status(self, user_id: str | None, prefix: str = "") -> pb.GetIndexStatusResponse:  # noqa: ARG002 - as a Report
        raise Fault(Reason.ERROR_REASON_STORAGE_UNAVAILABLE, "the log cannot be read")


class Model:
    """An embedder that rejects one text."""

    kind, model, dimension = "scripted", "scripted", 2

    async def embed_query(self, text: str) -> Vector:
        if text == "refused":
            raise build_embedder_unavailable_fault("it refuses", "scripted")
        return np.ones(2, np.float32).tobytes()

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        return [await self.embed_query(text) for text in texts]

    async def close(self) -> None:
        pass


async def test_active_fault_is_exported_until_it_is_cleared() -> None:
    faults = ActiveFaults()
    metrics = ServerMetrics(Meters(), faults)
    faults.report(QDRANT, UNREACHABLE, "the Qdrant server does not answer")
    assert (
        read((await metrics.text()).decode()).value("nomemory_active_faults", component=QDRANT, kind=UNREACHABLE) == 1
    )
    faults.clear(QDRANT)
    assert read((await metrics.text()).decode()).sum("nomemory_active_faults") == 0


async def test_an_unreadable_log_does_not_hide_other_metrics() -> None:
    meters = Meters()
    meters.observe(catalog.CALLS, 0.001, "ListMessages", "grpc", "UNAVAILABLE")
    scrape = read((await ServerMetrics(meters, ActiveFaults(), report=Unreadable()).text()).decode())
    assert ("nomemory_log_readable", ()) in scrape.samples
    assert scrape.value("nomemory_log_readable") == 0
    assert scrape.sum("nomemory_call_duration_seconds_count", code="UNAVAILABLE") == 1


async def test_embedder_metrics_exclude_cache_hits() -> None:
    meters = Meters()
    cached = CachedEmbedder(MeteredEmbedder(Model(), meters), 10)
    for text in ("one", "one", "two"):
        await cached.embed_query(text)
    with pytest.raises(Fault):
        await cached.embed_query("refused")
    await cached.embed_documents(["a", "b", "c"])
    scrape = read((await ServerMetrics(meters, ActiveFaults()).text()).decode())
    assert scrape.value("nomemory_embedder_texts_total", purpose="query") == 2
    assert scrape.value("nomemory_embedder_texts_total", purpose="document") == 3
    assert scrape.value("nomemory_embedder_errors_total", purpose="query") == 1
    assert scrape.value("nomemory_embedder_call_duration_seconds_count", purpose="query") == 3


def test_recall_only_server_exports_metrics(
    own_settings: Settings, start: Callable[[Settings], AbstractContextManager[Server]], vector_server: Server
) -> None:
    changed = own_settings.copy_with_changes(recall_upstream=vector_server.target, metrics_listen="127.0.0.1:0")
    with start(changed) as server:
        scrape = scraped(server.metrics)
    assert scrape.value("nomemory_process_memory_bytes", process="server") > 1_000_000
    assert scrape.sum("nomemory_log_readable") == 0
