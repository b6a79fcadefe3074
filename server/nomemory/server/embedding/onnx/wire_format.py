"""ONNX's protobuf messages, as far as a model of our own needs them.

The package `onnx` would be one more dependency of every server, for what is done once.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

_VARINT, _BYTES, _FIXED32 = 0, 2, 5
_MORE = 0x80
_ATTRIBUTE_FLOAT, _ATTRIBUTE_INT, _ATTRIBUTE_INTS = 1, 2, 7
_EXTERNAL = 1
_IR_VERSION = 10

MICROSOFT = "com.microsoft"
"""The domain of ONNX Runtime's own operators."""
OPERATOR_SETS = {"": 21, MICROSOFT: 1}

Attribute = int | float | Sequence[int]


class ElementType(IntEnum):
    """What a tensor is made of."""

    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    INT32 = 6
    INT64 = 7


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor's numbers are in the file beside the model."""

    file: str
    offset: int
    length: int


def node(
    operator: str,
    inputs: Sequence[str],
    output: str,
    domain: str,
    attributes: Mapping[str, Attribute],
) -> bytes:
    """Encode a NodeProto with one output, of which it has its name."""
    return b"".join(
        [
            *(_text(1, name) for name in inputs),
            _text(2, output),
            _text(3, output),
            _text(4, operator),
            *(_field(5, _attribute(name, value)) for name, value in attributes.items()),
            _text(7, domain),
        ]
    )


def tensor(name: str, element: ElementType, shape: Sequence[int], numbers: bytes | Place) -> bytes:
    """Encode a TensorProto whose numbers are inside it or at a place."""
    head = b"".join(_number(1, size) for size in shape) + _number(2, element) + _text(8, name)
    if isinstance(numbers, bytes):
        return head + _field(9, numbers)
    place = {"location": numbers.file, "offset": str(numbers.offset), "length": str(numbers.length)}
    entries = (_field(13, _text(1, key) + _text(2, value)) for key, value in place.items())
    return head + b"".join(entries) + _number(14, _EXTERNAL)


def value(name: str, element: ElementType, shape: Sequence[int | str]) -> bytes:
    """Encode a ValueInfoProto. A size that is a word is open."""
    sizes = (_field(1, _text(2, size) if isinstance(size, str) else _number(1, size)) for size in shape)
    return _text(1, name) + _field(2, _field(1, _number(1, element) + _field(2, b"".join(sizes))))


def model(
    nodes: Sequence[bytes],
    tensors: Sequence[bytes],
    inputs: Sequence[bytes],
    output: bytes,
    operator_sets: Mapping[str, int],
) -> bytes:
    """Encode a ModelProto."""
    graph = b"".join(
        [
            *(_field(1, each) for each in nodes),
            _text(2, "embedder"),
            *(_field(5, each) for each in tensors),
            *(_field(11, each) for each in inputs),
            _field(12, output),
        ]
    )
    sets = (_field(8, _text(1, domain) + _number(2, version)) for domain, version in operator_sets.items())
    return _number(1, _IR_VERSION) + _text(2, "nomemory") + _field(7, graph) + b"".join(sets)


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, float):
        return _text(1, name) + _key(2, _FIXED32) + struct.pack("<f", value) + _number(20, _ATTRIBUTE_FLOAT)
    if isinstance(value, int):
        return _text(1, name) + _number(3, value) + _number(20, _ATTRIBUTE_INT)
    return _text(1, name) + b"".join(_number(8, each) for each in value) + _number(20, _ATTRIBUTE_INTS)


def _key(number: int, kind: int) -> bytes:
    return _varint(number << 3 | kind)


def _number(number: int, value: int) -> bytes:
    return _key(number, _VARINT) + _varint(value & (1 << 64) - 1)


def _field(number: int, content: bytes) -> bytes:
    return _key(number, _BYTES) + _varint(len(content)) + content


def _text(number: int, text: str) -> bytes:
    return _field(number, text.encode())


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= _MORE:
        encoded.append(value & (_MORE - 1) | _MORE)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
