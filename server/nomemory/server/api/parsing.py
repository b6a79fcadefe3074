"""Bytes to requests of the contract, without holding other calls up.

protobuf reads a megabyte of text in a moment, but a megabyte of tiny entries in a tenth of a second, and they take
fifty times the memory. So the entries of a long request are counted before it is parsed, and it is parsed in pieces,
between which other calls run: the pieces of a message, one after the other, are the message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final, NamedTuple

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as ProtoMessage
from google.protobuf.message_factory import GetMessageClass

from nomemory.server.faults import Fault, Reason, Violation, invalid

_AT_ONCE_BYTES: Final = 65_536
"""What is parsed before other calls run."""
_SHORT_BYTES: Final = 4_096
"""A message within a request that is no longer is not looked into."""
_ENTRIES_MAX: Final = 20_000
"""Entries of a request, and of a message within it: ids, messages, metadata, numbers that are not packed."""
READ_MAX_BYTES: Final = 1 << 20
"""No read needs as much: 500 ids of 128 characters are a quarter of it."""
_FIXED_BYTES: Final = {1: 8, 5: 4}
_LENGTH: Final = 2
_VARINT: Final = 0
_VARINT_BITS: Final = 70


class _Piece(NamedTuple):
    """A field on the wire: its number, where what it holds begins, and where that ends."""

    number: int
    begins: int
    ends: int


class RequestParser:
    """Parses the requests of a method.

    Args:
        of: what they are.
        writes: whether they write: then they may be as long as the server takes.
    """

    def __init__(self, of: Descriptor, *, writes: bool) -> None:
        self._of = of
        self._writes = writes
        self._type = GetMessageClass(of)

    def __call__(self, raw: bytes) -> ProtoMessage:
        """Parse what is short.

        Raises:
            Fault: MALFORMED_REQUEST.
        """
        return self._merged(self._type(), raw)

    async def parsed(self, raw: bytes) -> ProtoMessage:
        """Parse a request. Other calls run in between if it is long.

        Raises:
            Fault: MALFORMED_REQUEST; INVALID_FIELD, it has too many entries; REQUEST_TOO_LARGE, it is a read.
        """
        if len(raw) <= _AT_ONCE_BYTES:
            return self(raw)
        if len(raw) > READ_MAX_BYTES and not self._writes:
            message = f"the request of a read is larger than {READ_MAX_BYTES} bytes"
            raise Fault(Reason.ERROR_REASON_REQUEST_TOO_LARGE, message)
        request, begin = self._type(), 0
        for end in _cuts(raw, self._of):
            self._merged(request, raw[begin:end])
            begin = end
            await asyncio.sleep(0)
        return request

    def _merged(self, request: ProtoMessage, raw: bytes) -> ProtoMessage:
        try:
            request.MergeFromString(raw)
        except DecodeError:
            raise _malformed(self._of) from None
        return request


def _cuts(raw: bytes, of: Descriptor) -> Iterator[int]:
    """Return where a request may be cut, once it is known that it has not too many entries."""
    ends = []
    for piece in _pieces(raw, 0, len(raw), of):
        ends.append(piece.ends)
        field = of.fields_by_number.get(piece.number)
        if field is not None and field.message_type is not None and piece.ends - piece.begins > _SHORT_BYTES:
            for _ in _pieces(raw, piece.begins, piece.ends, field.message_type):
                pass
    begin = 0
    for end, following in zip(ends, [*ends[1:], len(raw) + _AT_ONCE_BYTES], strict=True):
        if following - begin > _AT_ONCE_BYTES:
            yield end
            begin = end


def _pieces(raw: bytes, begin: int, end: int, of: Descriptor) -> Iterator[_Piece]:
    """Return the fields of a message.

    Raises:
        Fault: INVALID_FIELD, there are too many; MALFORMED_REQUEST, this is no message.
    """
    count = 0
    while begin < end:
        piece = _piece(raw, begin, end, of)
        count += 1
        if count > _ENTRIES_MAX:
            field = of.fields_by_number.get(piece.number)
            name = field.name if field else "the request"
            raise invalid([Violation(name, f"must have at most {_ENTRIES_MAX} entries")])
        yield piece
        begin = piece.ends


def _piece(raw: bytes, begin: int, end: int, of: Descriptor) -> _Piece:
    tag, at = _varint(raw, begin, end, of)
    kind = tag & 7
    if kind == _LENGTH:
        length, at = _varint(raw, at, end, of)
    elif kind == _VARINT:
        length, at = 0, _varint(raw, at, end, of)[1]
    elif kind in _FIXED_BYTES:
        length = _FIXED_BYTES[kind]
    else:
        raise _malformed(of)
    return _Piece(tag >> 3, at, min(at + length, end))


def _varint(raw: bytes, at: int, end: int, of: Descriptor) -> tuple[int, int]:
    """Return a number and where it ends."""
    value = 0
    for shift in range(0, _VARINT_BITS, 7):
        if at == end:
            break
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the last byte of a number has no such bit
            return value, at
    raise _malformed(of)


def _malformed(of: Descriptor) -> Fault:
    return Fault(Reason.ERROR_REASON_MALFORMED_REQUEST, f"the request is not a valid {of.full_name} in UTF-8")
