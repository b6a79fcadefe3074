"""An embedder for OpenAI-compatible endpoints such as OpenAI, TEI, vLLM and Ollama."""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime

import numpy as np
import openai
from openai import AsyncOpenAI, Omit, omit

from nomemory.server.embedding.protocol import RATE_LIMITED, TextRejectedError, build_embedder_unavailable_fault
from nomemory.server.embedding.text_batches import replace_unencodable
from nomemory.server.embedding.vector import NUMBER, NUMBER_BYTES, UnusableVectorError, Vector, normalize_vector
from nomemory.server.faults import Fault, Violation, build_invalid_argument_fault

_REFUSES_INPUT = frozenset({400, 413, 422})
_REFUSES_KEY = frozenset({401, 403})
_NOT_FOUND, _TOO_MANY, _OVERLOADED = 404, 429, 503
_DEFAULT_RETRY_AFTER_S, _MAX_RETRY_AFTER_S = 5.0, 3600.0


class InputRejectedError(Exception):
    """The embedding endpoint rejected the texts of a request.

    Attributes:
        status: the HTTP status of the response.
    """

    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP status {status}")
        self.status = status


def extract_vectors(reply: object, count: int) -> list[Vector]:
    """Extract the vectors of a response in the order of the texts, without validating them.

    Raises:
        Fault: EMBEDDER_UNAVAILABLE, the response does not contain `count` vectors.
    """
    rows = getattr(reply, "data", None)
    if not isinstance(rows, list) or len(rows) != count:
        raise _build_malformed_response_fault()
    indexes = [getattr(row, "index", None) for row in rows]
    if set(indexes) == set(range(count)):
        rows = sorted(rows, key=lambda row: int(row.index))
    return [_parse_vector(getattr(row, "embedding", None)) for row in rows]


def classify_response(status: int, headers: Mapping[str, str]) -> Fault | InputRejectedError:
    """Return the error for an HTTP error status of the embedding endpoint.

    The error does not contain the text of the response, which may quote the input.
    """
    if status in _REFUSES_INPUT:
        return InputRejectedError(status)
    if status in _REFUSES_KEY:
        return build_embedder_unavailable_fault("the embedding endpoint rejects the API key", "key_refused")
    if status == _NOT_FOUND:
        return build_embedder_unavailable_fault("the embedding endpoint does not have this path or model", "not_found")
    retry_after_s = _parse_retry_after_s(headers)
    if status == _TOO_MANY or (status == _OVERLOADED and retry_after_s is not None):
        delay_s = _DEFAULT_RETRY_AFTER_S if retry_after_s is None else retry_after_s
        return build_embedder_unavailable_fault(
            "the embedding endpoint limits the rate of requests", RATE_LIMITED, delay_s
        )
    return build_embedder_unavailable_fault(f"the embedding endpoint returned HTTP status {status}", "server_error")


def _build_malformed_response_fault() -> Fault:
    return build_embedder_unavailable_fault("the embedding endpoint returned an invalid response", "malformed")


def _parse_vector(embedding: object) -> Vector:
    try:
        if isinstance(embedding, str):
            return base64.b64decode(embedding, validate=True)
        return np.asarray(embedding, dtype=NUMBER).tobytes()
    except (TypeError, ValueError):
        raise _build_malformed_response_fault() from None


def _parse_retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the delay in seconds that a Retry-After header specifies. The header contains seconds or a date."""
    value = headers.get("retry-after", "")
    try:
        seconds = float(value) if value.isdigit() else parsedate_to_datetime(value).timestamp() - time.time()
    except ValueError:
        return None
    return min(max(0.0, seconds), _MAX_RETRY_AFTER_S)


_NO_KEY = "none"
_PROBE_TEXT = "hello"
_SHORTENABLE = "text-embedding-3"
_TRANSIENT_CAUSES = frozenset({"connection", "server_error"})


def create_client(base_url: str | None, api_key: str | None, timeout_s: float) -> AsyncOpenAI:
    """Return a client for the embedding endpoint, without retries, because retries would delay errors."""
    return AsyncOpenAI(base_url=base_url, api_key=api_key or _NO_KEY, timeout=timeout_s, max_retries=0)


class OpenAICompatibleEmbedder:
    """An `Embedder` that calls an OpenAI-compatible endpoint.

    Args:
        client: the client of the endpoint. Closing the embedder closes the client.
        model: the name of the model at the endpoint.
        dimension: the dimension of the vectors, which is sent to OpenAI models that support shortened vectors.
        batch_max: the maximum number of texts in a request.
    """

    kind = "openai"

    def __init__(self, client: AsyncOpenAI, model: str, dimension: int, batch_max: int) -> None:
        self._client = client
        self.model = model
        self.dimension = dimension
        self._batch_max = batch_max
        self._dimensions: int | Omit = dimension if model.startswith(_SHORTENABLE) else omit

    async def embed_query(self, text: str) -> Vector:
        """Embed a query. A transient failure is retried once.

        Raises:
            Fault: INVALID_FIELD if the model rejects the text, or a fault that `Embedder` describes.
        """
        try:
            return (await self._embed_text(text))[0]
        except TextRejectedError as error:
            raise build_invalid_argument_fault([Violation("query_text", str(error))]) from None

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed documents."""
        vectors: list[Vector] = []
        for at in range(0, len(texts), self._batch_max):
            vectors += await self._embed_batch(texts[at : at + self._batch_max], at)
        return vectors

    async def close(self) -> None:
        """Close the connection."""
        await self._client.close()

    async def _embed_text(self, text: str) -> list[Vector]:
        try:
            return await self._embed_batch([text], 0)
        except Fault as fault:
            if fault.metadata.get("cause") not in _TRANSIENT_CAUSES:
                raise
        return await self._embed_batch([text], 0)

    async def _embed_batch(self, texts: Sequence[str], offset: int) -> list[Vector]:
        """Embed texts in one request.

        If the endpoint rejects the request, bisect the texts to find the text that it rejects.
        """
        try:
            vectors = await self._request_vectors(texts)
        except InputRejectedError as error:
            if len(texts) == 1:
                cause = f"the embedding endpoint rejected the text with HTTP status {error.status}"
                raise await self._classify_failure(offset, cause) from None
            half = len(texts) // 2
            return await self._embed_batch(texts[:half], offset) + await self._embed_batch(texts[half:], offset + half)
        return [await self._normalize(vector, offset + index) for index, vector in enumerate(vectors)]

    async def _normalize(self, vector: Vector, position: int) -> Vector:
        if len(vector) != self.dimension * NUMBER_BYTES:
            raise self._build_wrong_dimension_fault(len(vector) // NUMBER_BYTES)
        try:
            return normalize_vector(vector, self.dimension)
        except UnusableVectorError as error:
            raise await self._classify_failure(position, f"the model returned an unusable vector: it {error}") from None

    async def _classify_failure(self, position: int, cause: str) -> TextRejectedError | Fault:
        """Embed a probe text, and return the error to raise for a failed request.

        If the endpoint can embed the probe text, the error is a TextRejectedError, and otherwise a fault of the
        endpoint.
        """
        try:
            normalize_vector((await self._request_vectors([_PROBE_TEXT]))[0], self.dimension)
        except (InputRejectedError, UnusableVectorError):
            return build_embedder_unavailable_fault(
                "the embedding endpoint rejects every text: check NOMEMORY_EMBEDDING_MODEL and the endpoint",
                "misconfigured",
            )
        return TextRejectedError(position, cause)

    def _build_wrong_dimension_fault(self, dimension: int) -> Fault:
        return build_embedder_unavailable_fault(
            f"the embedding endpoint returned vectors with {dimension} dimensions, but NOMEMORY_EMBEDDING_DIMENSION is "
            f"{self.dimension}",
            "dimension",
        )

    async def _request_vectors(self, texts: Sequence[str]) -> list[Vector]:
        try:
            reply = await self._client.embeddings.create(
                model=self.model,
                input=[replace_unencodable(text) for text in texts],
                encoding_format="base64",
                dimensions=self._dimensions,
            )
        except openai.APITimeoutError:
            raise build_embedder_unavailable_fault(
                "the embedding endpoint did not answer within NOMEMORY_EMBEDDING_TIMEOUT_S: retry later", "timeout"
            ) from None
        except openai.APIConnectionError:
            raise build_embedder_unavailable_fault(
                "the embedding endpoint cannot be reached: check OPENAI_BASE_URL", "connection"
            ) from None
        except openai.APIStatusError as error:
            raise classify_response(error.status_code, error.response.headers) from None
        except (openai.OpenAIError, ValueError):  # ValueError: the response is not JSON
            raise _build_malformed_response_fault() from None
        return extract_vectors(reply, len(texts))
