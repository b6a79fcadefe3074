"""Messages that JSON has in a form of their own: times, durations, masks, free values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import orjson
from google.protobuf import json_format
from google.protobuf.message import Message as ProtoMessage

from nomemory.server.web.json_text import Json
from nomemory.server.web.scalars import UnfitError

_MICRO: Final = 1_000
_EXACT_UNTIL: Final = 1 << 32
"""Seconds up to which a float has every microsecond."""
_CAPITAL: Final = re.compile("[A-Z]")
_TIME_CHARS_MAX: Final = 64

# Any: the types of well-known messages have no common stub.
ReadInto = Callable[[Any, Json], None]
Write = Callable[[Any], object]


def _reads_text(expected: str) -> ReadInto:
    def read(message: Any, value: Json) -> None:  # noqa: ANN401 - as `ReadInto`
        if type(value) is not str or len(value) > _TIME_CHARS_MAX:
            raise UnfitError(f"must be {expected}")
        try:
            message.FromJsonString(value)
        except (ValueError, OverflowError):
            raise UnfitError(f"must be {expected}") from None

    return read


def _read_mask(message: Any, value: Json) -> None:  # noqa: ANN401 - as `ReadInto`
    """Read the paths of a mask; `messageId,ts` and `message_id,ts` are the same."""
    if type(value) is not str:
        raise UnfitError("must be names of fields, separated by commas")
    message.paths.extend(_CAPITAL.sub(lambda found: f"_{found[0].lower()}", path) for path in value.split(",") if path)


def _read_free(message: ProtoMessage, value: Json) -> None:
    try:
        json_format.Parse(orjson.dumps(value), message)
    except (json_format.ParseError, TypeError, ValueError):
        raise UnfitError(f"is no {message.DESCRIPTOR.name}") from None


def _write_time(message: Any) -> object:  # noqa: ANN401 - as `Write`
    """Return a time as orjson writes it; finer than microseconds, or of another age, as text."""
    seconds, nanos = message.seconds, message.nanos
    if 0 <= seconds < _EXACT_UNTIL and not nanos % _MICRO:
        return datetime.fromtimestamp(seconds + nanos * 1e-9, UTC)
    return message.ToJsonString()


WELL_KNOWN_READERS: Final[Mapping[str, ReadInto]] = {
    "google.protobuf.Timestamp": _reads_text("a time such as 2026-03-01T08:00:00Z"),
    "google.protobuf.Duration": _reads_text("a duration such as 1.5s"),
    "google.protobuf.FieldMask": _read_mask,
    "google.protobuf.Struct": _read_free,
    "google.protobuf.Value": _read_free,
    "google.protobuf.ListValue": _read_free,
}
WELL_KNOWN_WRITERS: Final[Mapping[str, Write]] = {
    "google.protobuf.Timestamp": _write_time,
    "google.protobuf.Duration": lambda message: message.ToJsonString(),
    "google.protobuf.FieldMask": lambda message: message.ToJsonString(),
    "google.protobuf.Struct": json_format.MessageToDict,
    "google.protobuf.Value": json_format.MessageToDict,
    "google.protobuf.ListValue": json_format.MessageToDict,
    "google.protobuf.Any": json_format.MessageToDict,
}
"""What orjson can write, for each of them."""
