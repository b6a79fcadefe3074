"""Parsing of binary requests within bounds.

protobuf parses a megabyte of text in under a millisecond. A megabyte of tiny entries takes 100 ms, in which no other
call runs, and fifty times its size in memory. So the entries of a large request are counted before it is parsed, and it
is parsed in pieces with other calls in between. Merging the pieces of an encoded message gives the message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as ProtoMessage
from google.protobuf.message_factory import GetMessageClass

from nomemory.server.faults import Fault, Reason, Violation, invalid

_PIECE_BYTES: Final = 65_536
"""Bytes that are parsed before other calls run."""
_SMALL_MESSAGE_BYTES: Final = 4_096
"""The entries of a nested message up to this size are not counted."""
_MAX_ENTRIES: Final = 20_000
"""Entries of a request or of a message nested in it: ids, messages, metadata, numbers that are not packed."""
_MAX_NESTED_ENTRIES: Final = 100_000
"""Entries of all messages in a request that are larger than `_SMALL_MESSAGE_BYTES`."""
_FIELDS_AT_ONCE: Final = 1_000
"""Fields of a request that are counted before other calls run."""
MAX_READ_BYTES: Final = 1 << 20
"""The size of a request that writes nothing. 500 ids of 128 characters take a quarter of it."""
_VARINT, _FIXED_64, _LENGTH_DELIMITED, _FIXED_32 = 0, 1, 2, 5
"""Wire types of protobuf."""
_FIXED_BYTES: Final = {_FIXED_64: 8, _FIXED_32: 4}
_MAX_VARINT_BITS: Final = 70


class _Field(NamedTuple):
    """A field of an encoded message: its number, and the start and end of its value."""

    number: int
    start: int
    end: int


class RequestParser:
    """Parses the requests of a method.

    Args:
        request_type: their type.
        writes: whether they change the message log. Then only the server's limit on request sizes applies.
    """

    def __init__(self, request_type: Descriptor, *, writes: bool) -> None:
        self._request_type = request_type
        self._request_class = GetMessageClass(request_type)
        self._writes = writes

    async def parse(self, encoded: bytes) -> ProtoMessage:
        """Parse a request. Other calls run in between if it is large.

        Raises:
            Fault: MALFORMED_REQUEST; INVALID_FIELD, it has too many entries; REQUEST_TOO_LARGE, it is a read.
        """
        request = self._request_class()
        if len(encoded) <= _PIECE_BYTES:
            self._merge(request, encoded)
            return request
        if len(encoded) > MAX_READ_BYTES and not self._writes:
            message = f"the request of a read has at most {MAX_READ_BYTES} bytes, got {len(encoded)}"
            raise Fault(Reason.ERROR_REASON_REQUEST_TOO_LARGE, message)
        start = 0
        for end in _piece_ends(await _field_ends(encoded, self._request_type)):
            self._merge(request, encoded[start:end])
            start = end
            await asyncio.sleep(0)
        return request

    def _merge(self, request: ProtoMessage, encoded: bytes) -> None:
        try:
            request.MergeFromString(encoded)
        except DecodeError:
            raise _malformed(self._request_type) from None


async def _field_ends(encoded: bytes, request_type: Descriptor) -> list[int]:
    """Return where the fields of a request end. Count its entries, and those of the large messages in it.

    Raises:
        Fault: INVALID_FIELD, there are too many; MALFORMED_REQUEST, it is not a message.
    """
    ends, entries = [], 0
    for field in _fields(encoded, 0, len(encoded), request_type):
        ends.append(field.end)
        declared = request_type.fields_by_number.get(field.number)
        nested_type = declared and declared.message_type
        if declared and nested_type and field.end - field.start > _SMALL_MESSAGE_BYTES:
            entries += sum(1 for _ in _fields(encoded, field.start, field.end, nested_type))
            if entries > _MAX_NESTED_ENTRIES:
                raise invalid([Violation(declared.name, f"must have at most {_MAX_NESTED_ENTRIES} entries in all")])
            await asyncio.sleep(0)
        elif len(ends) % _FIELDS_AT_ONCE == 0:
            await asyncio.sleep(0)
    return ends


def _piece_ends(field_ends: Sequence[int]) -> Iterator[int]:
    """Return where to cut a request so that each piece has whole fields and about `_PIECE_BYTES`."""
    start = 0
    for end in field_ends:
        if end - start >= _PIECE_BYTES:
            yield end
            start = end
    if field_ends and start < field_ends[-1]:
        yield field_ends[-1]


def _fields(encoded: bytes, start: int, end: int, message_type: Descriptor) -> Iterator[_Field]:
    """Yield the fields of an encoded message.

    Raises:
        Fault: INVALID_FIELD, there are too many; MALFORMED_REQUEST, it is not a message.
    """
    count = 0
    while start < end:
        field = _read_field(encoded, start, end, message_type)
        count += 1
        if count > _MAX_ENTRIES:
            declared = message_type.fields_by_number.get(field.number)
            name = declared.name if declared is not None else "the request"
            raise invalid([Violation(name, f"must have at most {_MAX_ENTRIES} entries")])
        yield field
        start = field.end


def _read_field(encoded: bytes, start: int, end: int, message_type: Descriptor) -> _Field:
    tag, start = _read_varint(encoded, start, end, message_type)
    wire_type = tag & 7
    if wire_type == _LENGTH_DELIMITED:
        length, start = _read_varint(encoded, start, end, message_type)
    elif wire_type == _VARINT:
        length, start = 0, _read_varint(encoded, start, end, message_type)[1]
    elif wire_type in _FIXED_BYTES:
        length = _FIXED_BYTES[wire_type]
    else:
        raise _malformed(message_type)
    return _Field(tag >> 3, start, min(start + length, end))


def _read_varint(encoded: bytes, start: int, end: int, message_type: Descriptor) -> tuple[int, int]:
    """Return a number and where it ends."""
    value = shift = 0
    while start < end and shift < _MAX_VARINT_BITS:
        byte = encoded[start]
        start += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the last byte of a number has no such bit
            return value, start
        shift += 7
    raise _malformed(message_type)


def _malformed(message_type: Descriptor) -> Fault:
    message = f"the request is not a valid {message_type.full_name} in UTF-8"
    return Fault(Reason.ERROR_REASON_MALFORMED_REQUEST, message)
