"""Errors of a chat endpoint, in our own words: an endpoint's words may quote the prompt."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

import openai

from nomemory.recall.llm.chat_model import ChatFailedError

_MISUNDERSTOOD = frozenset({400, 404, 415, 422, 501})
_PASSING = frozenset({408, 409, 425, 429})
_SERVER_ERROR = 500


class PassingError(ChatFailedError):
    """It may answer if asked again after `pause_s` seconds, or, if that is None, after a moment."""

    def __init__(self, cause: str, pause_s: float | None = None) -> None:
        super().__init__(cause)
        self.pause_s = pause_s


class MisunderstoodError(ChatFailedError):
    """It may answer a simpler request; `parameter` is what it names as the reason, if it does."""

    def __init__(self, cause: str, parameter: str | None) -> None:
        super().__init__(cause)
        self.parameter = parameter


def failure_of(error: openai.OpenAIError) -> ChatFailedError:
    """Return our failure for an error of the package."""
    if isinstance(error, openai.APITimeoutError):
        return PassingError("the chat endpoint does not answer in time")
    if isinstance(error, openai.APIConnectionError):
        return PassingError("the chat endpoint cannot be reached")
    if isinstance(error, openai.APIStatusError):
        return _of_status(error)
    return malformed()


def malformed() -> ChatFailedError:
    """Return the error for a malformed reply."""
    return ChatFailedError("the chat endpoint gives no usable reply")


def _of_status(error: openai.APIStatusError) -> ChatFailedError:
    status = error.status_code
    if status in _MISUNDERSTOOD:
        return MisunderstoodError(f"the chat endpoint refuses the request (status {status})", error.param)
    if status in _PASSING or status >= _SERVER_ERROR:
        return PassingError(f"the chat endpoint is busy or fails (status {status})", _pause_s(error.response.headers))
    return ChatFailedError(f"the chat endpoint refuses the key or the model (status {status})")


def _pause_s(headers: Mapping[str, str]) -> float | None:
    """Read a delay in seconds, or until a date."""
    value = headers.get("retry-after", "")
    try:
        return max(0.0, _seconds(value))
    except ValueError:
        return None


def _seconds(value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        return parsedate_to_datetime(value).timestamp() - time.time()
    if not math.isfinite(seconds):
        raise ValueError("not finite")
    return seconds
