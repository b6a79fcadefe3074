"""An embedder behind any OpenAI-compatible endpoint: OpenAI, TEI, vLLM, Ollama, and others."""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime

import numpy as np
import openai
from openai import AsyncOpenAI, Omit, omit

from nomemory.server.embedding.protocol import RATE_LIMITED, TextRefusedError, unavailable
from nomemory.server.embedding.text_batches import readable
from nomemory.server.embedding.vector import NUMBER, NUMBER_BYTES, UnusableVectorError, Vector, l2_normalize
from nomemory.server.faults import Fault, Violation, invalid

_REFUSES_INPUT = frozenset({400, 413, 422})
_REFUSES_KEY = frozenset({401, 403})
_NOT_FOUND, _TOO_MANY, _OVERLOADED = 404, 429, 503
_PATIENCE_S, _LONGEST_PATIENCE_S = 5.0, 3600.0


class InputRefusedError(Exception):
    """The endpoint does not take this input; another one it may take."""


def vectors_of(reply: object, count: int) -> list[Vector]:
    """Take the vectors out of a reply, in the order of the texts. They are not checked.

    Raises:
        Fault: EMBEDDER_UNAVAILABLE, if it is not a reply to that many texts.
    """
    rows = getattr(reply, "data", None)
    if not isinstance(rows, list) or len(rows) != count:
        raise _malformed()
    places = [getattr(row, "index", None) for row in rows]
    if set(places) == set(range(count)):
        rows = sorted(rows, key=lambda row: int(row.index))
    return [_vector(getattr(row, "embedding", None)) for row in rows]


def refusal(status: int, headers: Mapping[str, str]) -> Fault | InputRefusedError:
    """Say in our own words what an error status means."""
    if status in _REFUSES_INPUT:
        return InputRefusedError()
    if status in _REFUSES_KEY:
        return unavailable("the embedding endpoint refuses the key", "key_refused")
    if status == _NOT_FOUND:
        return unavailable("the embedding endpoint knows no such path or model", "not_found")
    patience_s = _retry_after_s(headers)
    if status == _TOO_MANY or (status == _OVERLOADED and patience_s is not None):
        wait_s = _PATIENCE_S if patience_s is None else patience_s
        return unavailable("the embedding endpoint limits the rate", RATE_LIMITED, wait_s)
    return unavailable("the embedding endpoint fails", "server_error")


def _malformed() -> Fault:
    return unavailable("the embedding endpoint gives no usable answer", "malformed")


def _vector(embedding: object) -> Vector:
    try:
        if isinstance(embedding, str):
            return base64.b64decode(embedding, validate=True)
        return np.asarray(embedding, dtype=NUMBER).tobytes()
    except (TypeError, ValueError):
        raise _malformed() from None


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Read a delay in seconds, or until a date."""
    value = headers.get("retry-after", "")
    try:
        seconds = float(value) if value.isdigit() else parsedate_to_datetime(value).timestamp() - time.time()
    except ValueError:
        return None
    return min(max(0.0, seconds), _LONGEST_PATIENCE_S)


_NO_KEY = "none"
_HARMLESS = "hello"
_SHORTENABLE = "text-embedding-3"
_PASSING = frozenset({"connection", "server_error"})


def connect(base_url: str | None, api_key: str | None, timeout_s: float) -> AsyncOpenAI:
    """Make a client; nothing is sent yet. Retries are ours: the package's would sleep where a caller should know."""
    return AsyncOpenAI(base_url=base_url, api_key=api_key or _NO_KEY, timeout=timeout_s, max_retries=0)


class OpenAICompatibleEmbedder:
    """Implements `Embedder`.

    Args:
        client: the connection; closed with the embedder.
        model: the endpoint's name of the model.
        dimension: how many numbers its vectors have. OpenAI's models that can shorten vectors are asked to.
        batch_max: most texts in one request.
    """

    kind = "openai"

    def __init__(self, client: AsyncOpenAI, model: str, dimension: int, batch_max: int) -> None:
        self._client = client
        self.model = model
        self.dimension = dimension
        self._batch_max = batch_max
        self._dimensions: int | Omit = dimension if model.startswith(_SHORTENABLE) else omit

    async def embed_query(self, text: str) -> Vector:
        """Embed a query. A failure that often passes at once is tried a second time.

        Raises:
            Fault: also INVALID_FIELD, if the model refuses the text.
        """
        try:
            return (await self._query(text))[0]
        except TextRefusedError:
            raise invalid([Violation("query_text", "is refused by the embedding model")]) from None

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed documents."""
        vectors: list[Vector] = []
        for at in range(0, len(texts), self._batch_max):
            vectors += await self._batch(texts[at : at + self._batch_max], at)
        return vectors

    async def close(self) -> None:
        """Close the connection."""
        await self._client.close()

    async def _query(self, text: str) -> list[Vector]:
        try:
            return await self._batch([text], 0)
        except Fault as fault:
            if fault.metadata.get("cause") not in _PASSING:
                raise
        return await self._batch([text], 0)

    async def _batch(self, texts: Sequence[str], offset: int) -> list[Vector]:
        """Embed texts in one request; if they are refused, in halves, until the one that is refused stands alone."""
        try:
            vectors = await self._request(texts)
        except InputRefusedError:
            if len(texts) == 1:
                raise await self._verdict(offset, "is refused by the embedding endpoint") from None
            half = len(texts) // 2
            return await self._batch(texts[:half], offset) + await self._batch(texts[half:], offset + half)
        return [await self._usable(vector, offset + place) for place, vector in enumerate(vectors)]

    async def _usable(self, vector: Vector, position: int) -> Vector:
        if len(vector) != self.dimension * NUMBER_BYTES:
            raise self._wrong_dimension(len(vector) // NUMBER_BYTES)
        try:
            return l2_normalize(vector, self.dimension)
        except UnusableVectorError as error:
            raise await self._verdict(position, f"has a vector that {error}") from None

    async def _verdict(self, position: int, cause: str) -> TextRefusedError | Fault:
        """Blame the text only if the endpoint takes another one: a wrong setting must not condemn every message."""
        try:
            l2_normalize((await self._request([_HARMLESS]))[0], self.dimension)
        except (InputRefusedError, UnusableVectorError):
            return unavailable("the embedding endpoint embeds no text: see its model and settings", "misconfigured")
        return TextRefusedError(position, cause)

    def _wrong_dimension(self, found: int) -> Fault:
        return unavailable(
            f"the endpoint's vectors have {found} numbers, NOMEMORY_EMBEDDING_DIMENSION says {self.dimension}",
            "dimension",
        )

    async def _request(self, texts: Sequence[str]) -> list[Vector]:
        try:
            reply = await self._client.embeddings.create(
                model=self.model,
                input=[readable(text) for text in texts],
                encoding_format="base64",
                dimensions=self._dimensions,
            )
        except openai.APITimeoutError:
            raise unavailable("the embedding endpoint does not answer in time", "timeout") from None
        except openai.APIConnectionError:
            raise unavailable("the embedding endpoint cannot be reached", "connection") from None
        except openai.APIStatusError as error:
            raise refusal(error.status_code, error.response.headers) from None
        except (openai.OpenAIError, ValueError):  # what is not JSON passes through the package as it is
            raise unavailable("the embedding endpoint gives no usable answer", "malformed") from None
        return vectors_of(reply, len(texts))
