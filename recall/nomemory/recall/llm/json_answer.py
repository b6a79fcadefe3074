"""Extract the JSON object from a model's answer."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from nomemory.recall.errors import RecallError
from nomemory.recall.model.step import JsonValue

JsonObject = dict[str, JsonValue]

_MAX_CHARS = 64_000
_MAX_CANDIDATES = 64
_THINKING = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)


class InvalidAnswerError(RecallError):
    """The answer of a chat model is invalid. The error message gives the reason without quoting the answer."""


def extract_object(text: str, keys: AbstractSet[str]) -> JsonObject:
    """Return the first JSON object with one of the keys in a text. Any other text around the object is ignored.

    Raises:
        InvalidAnswerError: none of the first 64 JSON objects has one of the keys, or the text exceeds 64,000
            characters.
    """
    if len(text) > _MAX_CHARS:
        raise InvalidAnswerError(
            f"The answer exceeds {_MAX_CHARS:,} characters. Give one JSON object and nothing else."
        )
    for candidate in _find_json_objects(_THINKING.sub("", text)):
        if keys & candidate.keys():
            return candidate
    expected = ", ".join(f'"{key}"' for key in sorted(keys))
    raise InvalidAnswerError(f"The answer contains no JSON object with {expected}. Give that object and nothing else.")


def _find_json_objects(text: str) -> Iterator[JsonObject]:
    position = text.find("{")
    for _ in range(_MAX_CANDIDATES):
        if position < 0:
            return
        try:
            candidate, end = _decode_object(text, position)
        except (ValueError, RecursionError):
            end = position + 1
        else:
            yield candidate
        position = text.find("{", end)


def _decode_object(text: str, position: int) -> tuple[JsonObject, int]:
    """Parse the JSON object at an offset. NaN, infinite numbers and unpaired surrogates are rejected."""
    value: JsonObject
    value, end = _DECODER.raw_decode(text, position)
    json.dumps(value, ensure_ascii=False).encode()
    return value, end


def _parse_finite_number(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError("not finite")
    return value


_DECODER = json.JSONDecoder(parse_float=_parse_finite_number, parse_constant=_parse_finite_number)
