"""A skill's defaults: where a search starts, and how much it asks for, unless the caller or the question says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import Final

from pydantic import TypeAdapter

from nomemory.recall.model.question import Role
from nomemory.recall.skills.frontmatter import is_host_setting
from nomemory.recall.skills.steering.outline import Entry, Section, Unreadable, UnreadableKind, named, word

_FORM: Final = re.compile(
    r"P(?=[0-9T])(?:[0-9]{1,6}Y)?(?:[0-9]{1,6}M)?(?:[0-9]{1,6}W)?(?:[0-9]{1,6}D)?"
    r"(?:T(?=[0-9])(?:[0-9]{1,6}H)?(?:[0-9]{1,6}M)?(?:[0-9]{1,6}S)?)?"
)
_LENGTH: Final = TypeAdapter(timedelta)
TOP_K_MAX: Final = 200
"""What the contract lets a search bring; the host's own limit may be lower."""
WINDOW: Final = "time_range_default"
ROLE: Final = "role_default"
TOP_K: Final = "top_k_default"
_KEYS: Final = {
    WINDOW: WINDOW,
    "time_range": WINDOW,
    "时间范围": WINDOW,
    ROLE: ROLE,
    "role": ROLE,
    "角色": ROLE,
    TOP_K: TOP_K,
    "top_k": TOP_K,
    "条数": TOP_K,
}
_ANY: Final = frozenset({"all", "any", "全部", "任何", "不限"})
_ROLES: Final = {
    **{role.value: role for role in Role},
    "用户": Role.USER,
    "助手": Role.ASSISTANT,
    "系统": Role.SYSTEM,
    "工具": Role.TOOL,
    "任何": Role.ANY,
    "全部": Role.ANY,
    "不限": Role.ANY,
}
_WHOLE: Final = re.compile(r"[0-9]{1,9}")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_ENTRY: Final = UnreadableKind.ENTRY
_Wrong = tuple[str, UnreadableKind]
WINDOW_WRONG: Final = f"`{WINDOW}` is an ISO 8601 duration such as `P30D`, or `all`"


def duration(text: str) -> timedelta | None:
    """Read a duration such as `P30D`, `P6M` or `PT12H`; None if it is none, or is no time at all.

    A month is 30 days and a year 365, as nobody remembers to the day. Fractions are not read.
    """
    form = text.upper() if text.isascii() else ""
    return (_LENGTH.validate_python(form) or None) if _FORM.fullmatch(form) else None


class AnyTime(Enum):
    """A window that is explicitly without bounds."""

    ANY = "any"


@dataclass(frozen=True, slots=True)
class Defaults:
    """A skill's defaults; None: it has none.

    `window` reaches back from the time of the question. `top_k` is how many messages a search asks for. `lines` are the
    lines of SKILL.md where they stand, by their keys: `time_range_default`, `role_default`, `top_k_default`.
    """

    window: timedelta | AnyTime | None = None
    role: Role | None = None
    top_k: int | None = None
    lines: Mapping[str, int] = field(default_factory=dict)


def window_in(value: str) -> timedelta | AnyTime | None:
    """Read the value of a default range; None: it is no duration."""
    named_so = word(value)
    return AnyTime.ANY if named_so in _ANY else duration(named_so)


class DefaultsReader:
    """Reads the sections of defaults. The first of two equal keys counts."""

    def __init__(self) -> None:
        self.unreadable: list[Unreadable] = []
        self._window: timedelta | AnyTime | None = None
        self._role: Role | None = None
        self._top_k: int | None = None
        self._lines: dict[str, int] = {}
        self._readers: dict[str, Callable[[str], Iterator[_Wrong]]] = {
            WINDOW: self._take_window,
            ROLE: self._take_role,
            TOP_K: self._take_top_k,
        }

    def read(self, file: str, section: Section) -> None:
        """Read the entries of a section."""
        for part in section.parts:
            for entry in part.entries:
                self.unreadable.extend(Unreadable(file, entry.line, why, kind) for why, kind in self._take(entry))

    def defaults(self) -> Defaults:
        """Return everything read so far."""
        return Defaults(self._window, self._role, self._top_k, dict(self._lines))

    def _take(self, entry: Entry) -> Iterator[_Wrong]:
        key = _KEYS.get(named(entry.key))
        if key is None:
            if _NAME.fullmatch(entry.key) and entry.value and not is_host_setting(entry.key):
                yield f"there are no defaults but `{WINDOW}`, `{ROLE}` and `{TOP_K}`", _ENTRY
        elif key in self._lines:
            yield f"`{key}` stands here again: the first counts", _ENTRY
        else:
            self._lines[key] = entry.line
            yield from self._readers[key](word(entry.value))

    def _take_window(self, value: str) -> Iterator[_Wrong]:
        self._window = window_in(value)
        if self._window is None:
            yield WINDOW_WRONG, UnreadableKind.DURATION

    def _take_role(self, value: str) -> Iterator[_Wrong]:
        self._role = _ROLES.get(value)
        if self._role is None:
            yield f"`{ROLE}` is one of `user`, `assistant`, `system`, `tool` and `any`", _ENTRY

    def _take_top_k(self, value: str) -> Iterator[_Wrong]:
        given = int(value) if _WHOLE.fullmatch(value) else 0
        self._top_k = min(given, TOP_K_MAX) or None
        if not given:
            yield f"`{TOP_K}` is a whole number from 1 to {TOP_K_MAX}", _ENTRY
        elif given > TOP_K_MAX:
            yield f"`{TOP_K}` is at most {TOP_K_MAX}, which is used", _ENTRY
