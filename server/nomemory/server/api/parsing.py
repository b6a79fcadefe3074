"""Incremental parsing of encoded requests with a limit on their entries.

protobuf parses 1 MB of text in less than 1 ms. Parsing 1 MB of tiny entries blocks the event loop for 100 ms and takes
50 MB of memory. Therefore the parser counts the entries of a large request first, and then parses the request in
chunks. Merging the chunks of an encoded message is equivalent to parsing the whole message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as ProtoMessage
from google.protobuf.message_factory import GetMessageClass

from nomemory.server.faults import Fault, Reason, Violation, build_invalid_argument_fault

_CHUNK_BYTES: Final = 65_536
"""Number of bytes to parse before the event loop runs other tasks."""
_SMALL_MESSAGE_BYTES: Final = 4_096
"""The fields of nested messages up to this size are not counted."""
_MAX_ENTRIES: Final = 20_000
"""Maximum number of encoded fields in a request or in a message nested in it, such as ids, messages and metadata."""
_MAX_NESTED_ENTRIES: Final = 100_000
"""Maximum number of encoded fields in all nested messages larger than `_SMALL_MESSAGE_BYTES`."""
_FIELDS_PER_YIELD: Final = 1_000
"""Number of fields to count before the event loop runs other tasks."""
MAX_READ_BYTES: Final = 1 << 20
"""Maximum size of a request of a method that does not write. 500 ids of 128 characters take a quarter of it."""
_VARINT, _FIXED_64, _LENGTH_DELIMITED, _FIXED_32 = 0, 1, 2, 5
"""Protobuf wire types."""
_FIXED_BYTES: Final = {_FIXED_64: 8, _FIXED_32: 4}
_MAX_VARINT_BITS: Final = 70


class _EncodedField(NamedTuple):
    """The number of a field in an encoded message, and the offsets of its value."""

    number: int
    start: int
    end: int


class RequestParser:
    """Parses the encoded requests of one method.

    Args:
        is_write: whether the method changes the message log. Requests of other methods are limited to `MAX_READ_BYTES`.
    """

    def __init__(self, request_type: Descriptor, *, is_write: bool) -> None:
        self._request_type = request_type
        self._request_class = GetMessageClass(request_type)
        self._is_write = is_write

    async def parse(self, encoded: bytes) -> ProtoMessage:
        """Parse a request. While it parses a large request, the parser yields to the event loop.

        Raises:
            Fault: MALFORMED_REQUEST; INVALID_FIELD, too many entries; REQUEST_TOO_LARGE, more than `MAX_READ_BYTES`.
        """
        request = self._request_class()
        if len(encoded) <= _CHUNK_BYTES:
            self._merge_field(request, encoded)
            return request
        if len(encoded) > MAX_READ_BYTES and not self._is_write:
            message = f"read requests are limited to {MAX_READ_BYTES} bytes, got {len(encoded)}"
            raise Fault(Reason.ERROR_REASON_REQUEST_TOO_LARGE, message)
        start = 0
        for end in _find_chunk_ends(await _find_field_ends(encoded, self._request_type)):
            self._merge_field(request, encoded[start:end])
            start = end
            await asyncio.sleep(0)
        return request

    def _merge_field(self, request: ProtoMessage, encoded: bytes) -> None:
        try:
            request.MergeFromString(encoded)
        except DecodeError:
            raise _build_malformed_request_fault(self._request_type) from None


async def _find_field_ends(encoded: bytes, request_type: Descriptor) -> list[int]:
    """Return the end offsets of a request's fields, after counting the entries in the request and in nested messages.

    Raises:
        Fault: INVALID_FIELD, too many entries; MALFORMED_REQUEST, not an encoded message.
    """
    ends, entries = [], 0
    for field in _parse_fields(encoded, 0, len(encoded), request_type):
        ends.append(field.end)
        declared = request_type.fields_by_number.get(field.number)
        nested_type = declared and declared.message_type
        if declared and nested_type and field.end - field.start > _SMALL_MESSAGE_BYTES:
            entries += sum(1 for _ in _parse_fields(encoded, field.start, field.end, nested_type))
            if entries > _MAX_NESTED_ENTRIES:
                raise build_invalid_argument_fault(
                    [Violation(declared.name, f"must have at most {_MAX_NESTED_ENTRIES} entries in total")]
                )
            await asyncio.sleep(0)
        elif len(ends) % _FIELDS_PER_YIELD == 0:
            await asyncio.sleep(0)
    return ends


def _find_chunk_ends(field_ends: Sequence[int]) -> Iterator[int]:
    """Yield the end offsets of chunks of about `_CHUNK_BYTES`, which end at field boundaries."""
    start = 0
    for end in field_ends:
        if end - start >= _CHUNK_BYTES:
            yield end
            start = end
    if field_ends and start < field_ends[-1]:
        yield field_ends[-1]


def _parse_fields(encoded: bytes, start: int, end: int, message_type: Descriptor) -> Iterator[_EncodedField]:
    """Yield the top-level fields of an encoded message.

    Raises:
        Fault: INVALID_FIELD, too many fields; MALFORMED_REQUEST, not an encoded message.
    """
    count = 0
    while start < end:
        field = _read_field(encoded, start, end, message_type)
        count += 1
        if count > _MAX_ENTRIES:
            declared = message_type.fields_by_number.get(field.number)
            name = declared.name if declared is not None else "the request"
            raise build_invalid_argument_fault([Violation(name, f"must have at most {_MAX_ENTRIES} entries")])
        yield field
        start = field.end


def _read_field(encoded: bytes, start: int, end: int, message_type: Descriptor) -> _EncodedField:
    tag, start = _read_varint(encoded, start, end, message_type)
    wire_type = tag & 7
    if wire_type == _LENGTH_DELIMITED:
        length, start = _read_varint(encoded, start, end, message_type)
    elif wire_type == _VARINT:
        length, start = 0, _read_varint(encoded, start, end, message_type)[1]
    elif wire_type in _FIXED_BYTES:
        length = _FIXED_BYTES[wire_type]
    else:
        raise _build_malformed_request_fault(message_type)
    return _EncodedField(tag >> 3, start, min(start + length, end))


def _read_varint(encoded: bytes, start: int, end: int, message_type: Descriptor) -> tuple[int, int]:
    """Read a varint at offset `start`, and return its value and its end offset."""
    value = shift = 0
    while start < end and shift < _MAX_VARINT_BITS:
        byte = encoded[start]
        start += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the last byte has no continuation bit
            return value, start
        shift += 7
    raise _build_malformed_request_fault(message_type)


def _build_malformed_request_fault(message_type: Descriptor) -> Fault:
    message = f"the request is not a valid {message_type.full_name} in UTF-8"
    return Fault(Reason.ERROR_REASON_MALFORMED_REQUEST, message)
