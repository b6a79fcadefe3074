"""The local embedder, which runs a model with ONNX Runtime in worker processes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from nomemory.server.embedding.local_model import LocalModel, TextKind
from nomemory.server.embedding.protocol import TextRejectedError, build_embedder_unavailable_fault
from nomemory.server.embedding.text_batches import split_batches
from nomemory.server.embedding.vector import UnusableVectorError, Vector, normalize_vector
from nomemory.server.faults import Fault
from nomemory.server.runtime.processes.spawn import ProcessLaunch
from nomemory.server.runtime.processes.watchdog import WatchPolicy
from nomemory.server.runtime.processes.worker import Worker
from nomemory.server.runtime.processes.worker_errors import WorkerError, WorkerFailedError, WorkerLostError

EMBEDDER_HINT = (
    "the packages of the local embedder are not available on this platform. Set NOMEMORY_EMBEDDING_MODEL_DIR to a "
    "model directory, or NOMEMORY_EMBEDDER=openai with OPENAI_BASE_URL, NOMEMORY_EMBEDDING_MODEL and "
    "NOMEMORY_EMBEDDING_DIMENSION, or NOMEMORY_EMBEDDER=none"
)

_CRASHES_MAX = 2
_PROBE_TEXT = "hello"
_DOCUMENTS_NICENESS = 10
_CALL_CHARS = 2000
"""Characters per parallel batch in a call for documents. A call takes a fraction of a second."""
_AT_ONCE_MIN, _AT_ONCE_MAX = 2, 4
_NO_HOME = Path("/nonexistent")
"""Conventional home directory of a user without one."""
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",  # NumPy needs no threads
    "OPENBLAS_NUM_THREADS": "1",
    # Huge pages make queries 10 % faster. A single arena limits the memory retained after large batches.
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.arena_max=1",
}


def get_cache_directory() -> Path:
    """Return the default directory in which converted models are stored."""
    return Path(os.environ.get("XDG_CACHE_HOME") or _find_home_directory() / ".cache") / "nomemory"


def _find_home_directory() -> Path:
    """Return the home directory, or `_NO_HOME` if the user has no home directory, as in some containers."""
    try:
        return Path.home()
    except RuntimeError:
        return _NO_HOME


def compute_document_concurrency() -> int:
    """Return the number of document batches to compute in parallel.

    The result is 1 on a single core; otherwise, half the number of cores, limited to the range from 2 to 4. The
    process for documents runs at low priority.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, max(_AT_ONCE_MIN, min(_AT_ONCE_MAX, cores // 2)))


class LocalEmbedder:
    """An `Embedder` with separate processes for queries and documents, so that queries do not wait for documents.

    Args:
        timeout_s: the time limit of a call to a process, in seconds.
        threads: the number of threads that compute a query or a batch.
        policy: the watchdog policy of the processes.
        concurrent_batches: the number of document batches to compute in parallel.
    """

    kind = "local"

    def __init__(
        self,
        timeout_s: float,
        model: LocalModel,
        threads: int = 1,
        policy: WatchPolicy | None = None,
        concurrent_batches: int = 1,
    ) -> None:
        policy = policy or WatchPolicy()
        self.model, self.dimension, self.origin = model.name, model.dimension, model.origin
        queries = (str(0), str(threads), str(1), TextKind.QUERY, *model.arguments)
        documents = (
            str(_DOCUMENTS_NICENESS),
            str(threads),
            str(concurrent_batches),
            TextKind.DOCUMENT,
            *model.arguments,
        )
        self._queries = _create_worker(queries, timeout_s, "query-embedder", policy)
        self._documents = _create_worker(documents, timeout_s, "document-embedder", policy)
        self._call_chars = _CALL_CHARS * concurrent_batches
        self._documents_lock = asyncio.Lock()

    @property
    def process_ids(self) -> tuple[int | None, int | None]:
        """The PIDs of the query process and of the document process; None for a process that is not running."""
        return self._queries.process_id, self._documents.process_id

    async def embed_query(self, text: str) -> Vector:
        """Embed a query."""
        try:
            (vector,) = await self._queries.call((text,))
            return normalize_vector(vector, self.dimension)
        except WorkerError as error:
            raise build_embedder_unavailable_fault("the embedder does not respond: retry later", "crash") from error
        except UnusableVectorError as error:
            raise build_embedder_unavailable_fault(
                f"the model returned an unusable vector for the query: it {error}", "unusable"
            ) from None

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed documents. Each batch contains documents of similar length."""
        vectors: dict[int, Vector] = {}
        for positions in split_batches(list(map(len, texts)), self._call_chars):
            vectors.update(await self._embed_batch(positions, texts))
        return [vectors[position] for position in range(len(texts))]

    async def close(self) -> None:
        """Stop the processes."""
        await asyncio.gather(self._queries.close(), self._documents.close())

    async def _embed_batch(self, positions: Sequence[int], texts: Sequence[str]) -> dict[int, Vector]:
        """Embed texts in one call, or one by one if the call fails, to find the text that fails."""
        if len(positions) > 1:
            with suppress(WorkerLostError, WorkerFailedError, UnusableVectorError):
                vectors = await self._call_worker([texts[position] for position in positions])
                return dict(zip(positions, vectors, strict=True))
        return {position: await self._embed_single(position, texts[position]) for position in positions}

    async def _embed_single(self, position: int, text: str) -> Vector:
        for _ in range(_CRASHES_MAX):
            try:
                (vector,) = await self._call_worker([text])
            except WorkerLostError:
                continue
            except UnusableVectorError as error:
                raise await self._classify_failure(
                    position, f"the model returned an unusable vector: it {error}"
                ) from None
            except WorkerFailedError:
                raise await self._classify_failure(position, "the model failed to embed the text") from None
            return vector
        raise await self._classify_failure(position, f"the model process crashed on the text {_CRASHES_MAX} times")

    async def _classify_failure(self, position: int, cause: str) -> TextRejectedError | Fault:
        """Embed a probe text, and return the error to raise for a failed call.

        If the model can embed the probe text, the error is a TextRejectedError, and otherwise a fault of the model.
        """
        try:
            await self._call_worker([_PROBE_TEXT])
        except (WorkerLostError, WorkerFailedError, UnusableVectorError):
            return build_embedder_unavailable_fault(
                "the model fails for every text: check NOMEMORY_EMBEDDING_MODEL_DIR", "misconfigured"
            )
        return TextRejectedError(position, cause)

    async def _call_worker(self, texts: Sequence[str]) -> list[Vector]:
        async with self._documents_lock:
            try:
                await self._queries.start()  # started first, because it converts the model if necessary
                vectors = await self._documents.call(texts)
            except (WorkerLostError, WorkerFailedError):
                raise
            except WorkerError as error:
                raise build_embedder_unavailable_fault("the embedder does not respond: retry later", "start") from error
        return [normalize_vector(vector, self.dimension) for vector in vectors]


def _create_worker(arguments: tuple[str, ...], timeout_s: float, component: str, policy: WatchPolicy) -> Worker:
    return Worker(
        ProcessLaunch("nomemory.server.embedding.local_worker", arguments, _ENVIRONMENT), timeout_s, component, policy
    )
