"""Random requests drawn from the contract's descriptors: usual, unusual, oversized and invalid field values."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

_SET_PROBABILITY = 0.6
_SET_PROBABILITY_OF_NAMED = 0.95
_DAMAGE_PROBABILITY = 0.15
_DEPTH_MAX = 6
_FLOATS = (0.0, 1.0, -1.0, 0.5, 1.5, float("nan"), float("inf"), float("-inf"), 3.4e38, 1e-45)
_INT32 = (0, 1, -1, 2, 20, 200, 201, 500, 501, 2**31 - 1, -(2**31))
_INT64 = (*_INT32, 2**63 - 1, -(2**63), 253_402_300_800, -62_135_596_801, 1_750_000_000)
_ENUM = (0, 1, 2, 3, 4, 9, -1, 2**31 - 1)
_VALUES_BY_TYPE: Mapping[int, Sequence[Any]] = {
    FieldDescriptor.CPPTYPE_BOOL: (False, True),
    FieldDescriptor.CPPTYPE_DOUBLE: _FLOATS,
    FieldDescriptor.CPPTYPE_ENUM: _ENUM,
    FieldDescriptor.CPPTYPE_FLOAT: _FLOATS,
    FieldDescriptor.CPPTYPE_INT32: _INT32,
    FieldDescriptor.CPPTYPE_INT64: _INT64,
}
_TEXTS = (
    "", " ", "hotpot", "火锅", "\0", "\n", "\u200b", "\u202e", "'; DROP TABLE messages; --", "../../etc/passwd",
    "%s%n", "*", "user_id:*", 'a OR (b AND NOT "c")', "((((((((", '"', "🙂" * 30, "ﷺ" * 20, "e\u0301" * 50, "-" * 200,
    "AND OR NOT", "{}", "[]", '{"user_id": "lin"}', "null", "1e999", "Asia/Shanghai", "UTC", "content", "user_id",
    "embedding", "metadata.a",
)  # fmt: skip
_LENGTHS = (0, 1, 64, 65, 128, 129, 1024, 1025, 2000, 2001, 20_000)
_SIZES = (0, 1, 1, 2, 3, 5, 40)


@dataclass(frozen=True, slots=True)
class RequestGenerator:
    """Draws requests.

    Attributes: values: values by field name, used in four of five draws; other values depend on the type. dimension:
    the dimension of valid embeddings. fixed: names of fields that only get their values; if set, no request is
    corrupted.
    """

    random: random.Random
    values: Mapping[str, Sequence[Any]]
    dimension: int
    fixed: frozenset[str] = frozenset()

    def request(self, descriptor: Descriptor) -> bytes:
        """Draw a request; some are corrupted."""
        request = self.message(descriptor).SerializeToString()
        is_damaged = self.random.random() < _DAMAGE_PROBABILITY and not self.fixed
        return self._damaged(request) if is_damaged else request

    def message(self, descriptor: Descriptor, depth: int = 0) -> Message:
        """Draw a message."""
        message = GetMessageClass(descriptor)()
        for field in descriptor.fields:
            probability = _SET_PROBABILITY_OF_NAMED if field.name in self.values else _SET_PROBABILITY
            if depth < _DEPTH_MAX and self.random.random() < probability:
                self._set(message, field, depth)
        return message

    def _set(self, message: Message, field: FieldDescriptor, depth: int) -> None:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            entries = getattr(message, field.name)
            for _ in range(self._size()):
                entries[self._text()] = self._text()
        elif field.is_repeated:
            self._extend(getattr(message, field.name), field, depth)
        elif field.message_type is not None:
            getattr(message, field.name).CopyFrom(self.message(field.message_type, depth + 1))
        else:
            setattr(message, field.name, self._scalar(field))

    def _extend(self, repeated: Any, field: FieldDescriptor, depth: int) -> None:  # noqa: ANN401 - of any type
        if field.message_type is not None:
            repeated.extend(self.message(field.message_type, depth + 1) for _ in range(self._size()))
        elif field.cpp_type == FieldDescriptor.CPPTYPE_FLOAT:
            repeated.extend(self._embedding())
        else:
            repeated.extend(self._scalar(field) for _ in range(self._size()))

    def _scalar(self, field: Any) -> Any:  # noqa: ANN401 - of any type
        is_usual = self.random.random() < 0.8
        if field.name in self.values and (is_usual or field.name in self.fixed):
            return self.random.choice(self.values[field.name])
        if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
            return self._text()
        return self.random.choice(_VALUES_BY_TYPE[field.cpp_type])

    def _embedding(self) -> list[float]:
        if self.random.random() < 0.7:
            return [self.random.uniform(-1, 1) for _ in range(self.dimension)]
        return [self.random.choice(_FLOATS) for _ in range(self.random.choice((0, 1, self.dimension, 5000)))]

    def _text(self) -> str:
        kind = self.random.random()
        if kind < 0.6:
            return self.random.choice(_TEXTS)
        if kind < 0.8:
            return self.random.choice("a火 ()\"'") * self.random.choice(_LENGTHS)
        return "".join(chr(self._code_point()) for _ in range(self.random.randrange(40)))

    def _code_point(self) -> int:
        point = self.random.randrange(self.random.choice((0x7F, 0x250, 0x3000, 0xFFFF, 0x10FFFF)))
        return 0xFFFD if 0xD800 <= point <= 0xDFFF else point

    def _size(self) -> int:
        return self.random.choice(_SIZES)

    def _damaged(self, request: bytes) -> bytes:
        damaged = bytearray(request)
        for _ in range(self.random.randint(1, 4)):
            at = self.random.randrange(len(damaged) + 1)
            match self.random.randrange(4):
                case 0:
                    damaged[at:at] = self.random.randbytes(self.random.randint(1, 8))
                case 1:
                    del damaged[at : at + self.random.randint(1, 8)]
                case 2:
                    damaged[at : at + 1] = self.random.randbytes(1)
                case _:
                    damaged += damaged[at : at + 50]
        return bytes(damaged)
