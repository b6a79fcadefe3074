"""What a server that never was tells of itself, and something that tells it over HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from nomemory.server.metrics import catalog
from nomemory.server.metrics.family import Family
from nomemory.server.metrics.samples import Distribution, Samples
from nomemory.server.metrics.text import text_of

STARTED = 1_700_000_000.0
FIRST_AT = STARTED + 11_520.0
SECONDS = 2.0


def spread(samples: Samples, family: Family, times: Sequence[float], *labels: str) -> None:
    """Set a histogram to some values."""
    made = Distribution(family.bounds)
    for one in times:
        made.note(one)
    samples.spread(family, made, *labels)


def calm(started: float = STARTED) -> Samples:
    """Return the figures of a server that was started and has done a little."""
    told = Samples()
    told.put(catalog.BUILD, 1, "0.2.0", "3.12.1")
    told.put(catalog.START, started)
    spread(told, catalog.CALLS, [0.0008] * 100, "ListMessages", "grpc", "OK")
    spread(told, catalog.CALLS, [0.02] * 3, "HybridSearch", "grpc", "OK")
    for process, role, size, cpu in (("writer", "writer", 121.4e6, 9.0), ("reader-1", "reader", 70e6, 4.0)):
        told.put(catalog.PROCESS_MEMORY, size, process, role)
        told.put(catalog.PROCESS_CPU, cpu, process, role)
        told.put(catalog.PROCESS_RESTARTS, int(role == "reader"), process, role)
    told.put(catalog.PROCESSES_UNHEARD, 0)
    told.put(catalog.LOG_READABLE, 1)
    told.put(catalog.LOG_MESSAGES, 12_345)
    told.put(catalog.LOG_USERS, 46)
    told.put(catalog.WRITTEN, 12_345, "created")
    told.put(catalog.DELETED, 0, "ids")
    for process in ("writer", "reader-1"):
        told.put(catalog.READS_RUNNING, 0, process)
        told.put(catalog.READS_WAITING, 0, process)
        told.put(catalog.READS_USERS, 0, process)
        told.put(catalog.READS_REFUSED, 0, process)
    told.put(catalog.QUEUE, 0, "writer", "writes")
    told.put(catalog.QUEUE, 0, "writer", "embedder")
    for index in ("words", "meaning"):
        told.put(catalog.INDEX_PENDING, 0, index)
        told.put(catalog.INDEX_LAG, 0, index)
        told.put(catalog.INDEX_PARKED, 0, index)
        told.put(catalog.INDEX_FAILING, 0, index)
    for purpose in ("query", "document"):
        told.put(catalog.EMBEDDER_TEXTS, 10, purpose)
        spread(told, catalog.EMBEDDER_CALLS, [0.01] * 10, purpose)
        told.put(catalog.EMBEDDER_ERRORS, 0, purpose)
    told.put(catalog.EMBEDDER_CACHE, 0, "memory", "hit")
    spread(told, catalog.RECALL_ROUNDS, [])
    told.put(catalog.RECALL_SEARCHES, 0)
    told.put(catalog.RECALL_DROPPED, 0)
    return told


def busy() -> Samples:
    """Return the figures of the same server two seconds later, with much to do and something wrong."""
    told = calm()
    spread(told, catalog.CALLS, [0.0008] * 298 + [0.2] * 2, "ListMessages", "grpc", "OK")
    spread(told, catalog.CALLS, [0.02] * 13, "HybridSearch", "grpc", "OK")
    spread(told, catalog.CALLS, [45.0], "Recall", "http", "OK")
    told.put(catalog.ERRORS, 3, "ListMessages", "grpc", "INVALID_FIELD")
    told.put(catalog.ERRORS, 1, "HybridSearch", "grpc", "OVERLOADED")
    told.put(catalog.PROCESS_CPU, 11.0, "writer", "writer")
    told.put(catalog.READS_RUNNING, 3, "writer")
    told.put(catalog.READS_WAITING, 1_030, "writer")
    told.put(catalog.READS_USERS, 2, "writer")
    told.put(catalog.READS_REFUSED, 1, "writer")
    told.put(catalog.QUEUE, 7, "writer", "writes")
    told.put(catalog.WRITTEN, 12_545, "created")
    told.put(catalog.LOG_DAMAGED, 2)
    told.put(catalog.INDEX_PENDING, 120, "meaning")
    told.put(catalog.INDEX_LAG, 95.25, "meaning")
    told.put(catalog.INDEX_PARKED, 2, "meaning")
    told.put(catalog.INDEX_FAILING, 1, "meaning")
    told.put(catalog.EMBEDDER_TEXTS, 14, "query")
    spread(told, catalog.EMBEDDER_CALLS, [0.01] * 10 + [0.006] * 4, "query")
    told.put(catalog.EMBEDDER_CACHE, 1, "memory", "hit")
    told.put(catalog.EMBEDDER_CACHE, 3, "memory", "miss")
    told.put(catalog.RECALLS, 3, "supported", "enough")
    told.put(catalog.RECALLS, 1, "insufficient", "no_gain")
    spread(told, catalog.RECALL_ROUNDS, [2.0, 2.0, 2.0, 4.0])
    told.put(catalog.RECALL_DROPPED, 1)
    told.put(catalog.FAULT, 1, "vector-engine", "NOT_ANSWERING")
    return told


@contextmanager
def telling(*answers: Samples | bytes, status: int = 200) -> Iterator[str]:
    """Serve answers one after another, the last one again and again. The value is the address."""
    bodies = [text_of(one) if isinstance(one, Samples) else one for one in answers]

    class Telling(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = bodies.pop(0) if len(bodies) > 1 else bodies[0]
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Telling) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
