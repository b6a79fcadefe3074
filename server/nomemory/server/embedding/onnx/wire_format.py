"""ONNX's protobuf messages, as far as a model of our own needs them.

The package `onnx` would be one more dependency of every server, for what is done once.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

_BYTES, _FIXED32 = 2, 5
_MORE = 0x80
_ATTRIBUTE_FLOAT, _ATTRIBUTE_INT, _ATTRIBUTE_INTS = 1, 2, 7
_EXTERNAL = 1
_IR_VERSION = 10

MICROSOFT = "com.microsoft"
"""The domain of ONNX Runtime's own operators."""
OPERATOR_SETS = {"": 21, MICROSOFT: 1}

Attribute = int | float | Sequence[int]
_Value = int | float | str | bytes


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


def node(operator: str, inputs: Sequence[str], output: str, domain: str, attributes: Mapping[str, Attribute]) -> bytes:
    """Encode a NodeProto with one output, of which it has its name."""
    described = [_attribute(name, value) for name, value in attributes.items()]
    return _message((1, inputs), (2, [output]), (3, [output]), (4, [operator]), (5, described), (7, [domain]))


def tensor(name: str, element: ElementType, shape: Sequence[int], numbers: bytes | Place) -> bytes:
    """Encode a TensorProto whose numbers are inside it or at a place."""
    head = _message((1, shape), (2, [element]), (8, [name]))
    if isinstance(numbers, bytes):
        return head + _message((9, [numbers]))
    place = {"location": numbers.file, "offset": str(numbers.offset), "length": str(numbers.length)}
    entries = [_message((1, [key]), (2, [value])) for key, value in place.items()]
    return head + _message((13, entries), (14, [_EXTERNAL]))


def value(name: str, element: ElementType, shape: Sequence[int | str]) -> bytes:
    """Encode a ValueInfoProto. A size that is a word is open."""
    sizes = [_message((2 if isinstance(size, str) else 1, [size])) for size in shape]
    tensor_type = _message((1, [element]), (2, [_message((1, sizes))]))
    return _message((1, [name]), (2, [_message((1, [tensor_type]))]))


def model(
    nodes: Sequence[bytes],
    tensors: Sequence[bytes],
    inputs: Sequence[bytes],
    output: bytes,
    operator_sets: Mapping[str, int],
) -> bytes:
    """Encode a ModelProto."""
    graph = _message((1, nodes), (2, ["embedder"]), (5, tensors), (11, inputs), (12, [output]))
    sets = [_message((1, [domain]), (2, [version])) for domain, version in operator_sets.items()]
    return _message((1, [_IR_VERSION]), (2, ["nomemory"]), (7, [graph]), (8, sets))


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, float):
        return _message((1, [name]), (2, [value]), (20, [_ATTRIBUTE_FLOAT]))
    if isinstance(value, int):
        return _message((1, [name]), (3, [value]), (20, [_ATTRIBUTE_INT]))
    return _message((1, [name]), (8, value), (20, [_ATTRIBUTE_INTS]))


def _message(*fields: tuple[int, Sequence[_Value]]) -> bytes:
    """Encode a message: the numbers of its fields, and their values."""
    return b"".join(_field(number, value) for number, values in fields for value in values)


def _field(number: int, value: _Value) -> bytes:
    if isinstance(value, float):
        return _varint(number << 3 | _FIXED32) + struct.pack("<f", value)
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value & (1 << 64) - 1)
    content = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= _MORE:
        encoded.append(value & (_MORE - 1) | _MORE)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
