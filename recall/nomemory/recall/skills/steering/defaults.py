"""Default search parameters of a skill: initial scope and page size. Callers and questions override the defaults."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeVar

from pydantic import TypeAdapter

from nomemory.recall.model.question import Role
from nomemory.recall.skills.steering.outline import InvalidEntry, SkillEntry, extract_first_word, normalize_key

UNLIMITED_LOOKBACK: Final = timedelta.max
"""The lookback of a skill that explicitly sets no time limit."""
TOP_K_MAX: Final = 200
"""The API's maximum for `top_k`. The host's limit may be lower."""
_FORM: Final = re.compile(
    r"P(?=[0-9T])(?:[0-9]{1,6}Y)?(?:[0-9]{1,6}M)?(?:[0-9]{1,6}W)?(?:[0-9]{1,6}D)?"
    r"(?:T(?=[0-9])(?:[0-9]{1,6}H)?(?:[0-9]{1,6}M)?(?:[0-9]{1,6}S)?)?"
)
_LENGTH: Final = TypeAdapter(timedelta)
_WINDOW: Final = "time_range_default"
_ROLE: Final = "role_default"
_TOP_K: Final = "top_k_default"
_KEYS: Final = {
    **dict.fromkeys((_WINDOW, "time_range", "时间范围"), _WINDOW),
    **dict.fromkeys((_ROLE, "role", "角色"), _ROLE),
    **dict.fromkeys((_TOP_K, "top_k", "条数"), _TOP_K),
}
_ANY: Final = ("all", "any", "全部", "任何", "不限")
_ROLES: Final = {
    **{role.value: role for role in Role},
    **dict.fromkeys(_ANY, Role.ANY),
    "用户": Role.USER,
    "助手": Role.ASSISTANT,
    "系统": Role.SYSTEM,
    "工具": Role.TOOL,
}
_WHOLE: Final = re.compile(r"[0-9]{1,9}")
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class SkillDefaults:
    """Default search parameters of a skill. None means that the skill sets no default.

    `lookback` is the length of the time range that ends at the time of the question. `top_k` is the number of messages
    per search.
    """

    lookback: timedelta | None = None
    role: Role | None = None
    top_k: int | None = None


def read_defaults(entries: Iterable[SkillEntry]) -> tuple[SkillDefaults, list[InvalidEntry]]:
    """Parse the entries of the defaults sections of a skill. If a key is repeated, the first value is used."""
    by_key: dict[str, SkillEntry] = {}
    invalid = []
    for entry in entries:
        key = _KEYS.get(normalize_key(entry.key))
        if key in by_key:
            invalid.append(entry.to_invalid_entry(f"duplicate `{key}`: the first value is used"))
        elif key:
            by_key[key] = entry
        elif entry.is_setting:
            invalid.append(entry.to_invalid_entry(f"unknown default; supported: `{_WINDOW}`, `{_ROLE}` and `{_TOP_K}`"))

    def parse_value(key: str, read: Callable[[str], _Value | None], form: str) -> _Value | None:
        entry = by_key.get(key)
        parsed = read(extract_first_word(entry.value)) if entry else None
        if entry and parsed is None:
            invalid.append(entry.to_invalid_entry(f"`{key}` must be {form}"))
        return parsed

    defaults = SkillDefaults(
        parse_value(_WINDOW, _parse_lookback, "an ISO 8601 duration such as `P30D`, or `all`"),
        parse_value(_ROLE, _ROLES.get, "one of `user`, `assistant`, `system`, `tool` and `any`"),
        parse_value(_TOP_K, _parse_top_k, f"an integer from 1 to {TOP_K_MAX}"),
    )
    return defaults, invalid


def parse_duration(text: str) -> timedelta | None:
    """Parse an ISO 8601 duration such as `P30D`, `P6M` or `PT12H`; return None if it is invalid or zero.

    A month counts as 30 days, a year as 365 days. Fractions are not supported.
    """
    iso_duration = text.upper() if text.isascii() else ""
    return (_LENGTH.validate_python(iso_duration) or None) if _FORM.fullmatch(iso_duration) else None


def _parse_lookback(value: str) -> timedelta | None:
    return UNLIMITED_LOOKBACK if value in _ANY else parse_duration(value)


def _parse_top_k(value: str) -> int | None:
    count = int(value) if _WHOLE.fullmatch(value) else 0
    return count if 1 <= count <= TOP_K_MAX else None
