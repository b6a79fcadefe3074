"""Reads what an OpenAI-compatible endpoint answers: vectors as base64 or as numbers, errors by their status."""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

import numpy as np

from nomemory.server.embedding.l2_normalise import NUMBER
from nomemory.server.embedding.unavailable import RATE_LIMITED, unavailable
from nomemory.server.embedding.vector import Vector
from nomemory.server.faults import Fault

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
