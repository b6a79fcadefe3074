"""Remove user ids from the arguments of tool calls, so that a planner cannot select another user."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping

from nomemory.recall.model.step import JsonValue

_USER_KEYS = """
user users username uid uids owner ownerid account accountid actas onbehalfof impersonate principal subject sub identity
"""
_USER_KEY_NAMES = frozenset(_USER_KEYS.split())
_USER_KEY_PARTS = ("userid", "tenant")
"""Substrings of keys that contain a user id: `x-user-id`, `user_ids`, `tenantId`."""

_MAX_DEPTH = 16
"""Maximum nesting depth. Deeper values are dropped; no tool has such arguments."""


def remove_user_ids(arguments: Mapping[str, JsonValue]) -> tuple[dict[str, JsonValue], int]:
    """Return a copy without keys that name a user, and the number of removed keys.

    Keys in strings that contain JSON are also removed.
    """
    return _remove_user_ids_from_object(arguments, 0)


def is_user_key(key: str) -> bool:
    """Return whether a key names a user, in any spelling: `user_id`, `userId`, `X-User-Id`, `tenant`."""
    plain = "".join(char for char in unicodedata.normalize("NFKC", key).casefold() if char.isalnum())
    return plain in _USER_KEY_NAMES or any(mark in plain for mark in _USER_KEY_PARTS)


def _remove_user_ids_from_object(fields: Mapping[str, JsonValue], depth: int) -> tuple[dict[str, JsonValue], int]:
    cleaned: dict[str, JsonValue] = {}
    dropped = 0
    for key, value in fields.items():
        if is_user_key(key):
            dropped += 1
        else:
            cleaned[key], dropped_inside = _remove_user_ids_from_value(value, depth + 1)
            dropped += dropped_inside
    return cleaned, dropped


def _remove_user_ids_from_value(value: JsonValue, depth: int) -> tuple[JsonValue, int]:
    if isinstance(value, str):
        return _remove_user_ids_from_text(value, depth)
    if not isinstance(value, dict | list):
        return value, 0
    if depth > _MAX_DEPTH:
        return None, 1
    if isinstance(value, dict):
        return _remove_user_ids_from_object(value, depth)
    cleaned = [_remove_user_ids_from_value(item, depth + 1) for item in value]
    return [item for item, _ in cleaned], sum(count for _, count in cleaned)


def _remove_user_ids_from_text(text: str, depth: int) -> tuple[str, int]:
    """Remove user ids from a string that contains JSON. Return any other string unchanged, because it is query text."""
    if not text.lstrip().startswith(("{", "[", '"')):
        return text, 0
    if depth > _MAX_DEPTH:
        return "", 1
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text, 0
    cleaned, dropped = _remove_user_ids_from_value(value, depth + 1)
    return (json.dumps(cleaned, ensure_ascii=False), dropped) if dropped else (text, 0)
