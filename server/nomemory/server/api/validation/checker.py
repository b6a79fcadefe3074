"""The rules for the fields of requests. A `Checker` collects every violation before a request is refused."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import numpy as np
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp

from nomemory.server.api.identity.namespace import own_part
from nomemory.server.faults import Violation, invalid
from nomemory.server.message import ID_MAX_CHARS, Role
from nomemory.server.message_filter import EVERYTHING, Filter
from nomemory.server.runtime.settings import Settings
from nomemory.server.wire import MICROS, ROLES
from nomemory.v1 import message_pb2

_PAGE_SIZE_DEFAULT: Final = 50
_TOP_K_DEFAULT: Final = 20
_METADATA_KEY_MAX_CHARS: Final = 64
_METADATA_VALUE_MAX_CHARS: Final = 1024

Mask = frozenset[str] | None
"""The fields of a message to return; None means all."""
RETURNABLE = frozenset(message_pb2.ChatMessage.DESCRIPTOR.fields_by_name) - {"embedding"}
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799  # years 1 to 9999, as in Timestamp's own contract
_NANOS = 1_000_000_000
_QUOTED_CHARS = 40
_FILTER_ENTRIES_MAX = 4
EXCLUDED_CONVERSATIONS_MAX: Final = 16
_PATHS_MAX = 100
_LOOKED_AT_MAX = 1_000
"""Where metadata has more entries, only that is said."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@contextmanager
def checking(settings: Settings) -> Iterator[Checker]:
    """Check fields until the context is left.

    Raises:
        Fault: INVALID_FIELD, with all violations.
    """
    check = Checker(settings)
    yield check
    if check.violations:
        raise invalid(check.violations)


class Checker:
    """Checks fields one by one and collects the violations. For a wrong value it returns a harmless one."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.violations: list[Violation] = []

    def refuse(self, field: str, description: str) -> None:
        """Add a violation of a field."""
        self.violations.append(Violation(field, description))

    def identifier(self, field: str, value: str, *, required: bool) -> str:
        """Check an id: not blank if required, at most `ID_MAX_CHARS` characters, no control characters."""
        return self._id(field, value, chars=len(value), required=required)

    def user(self, field: str, value: str, *, required: bool = True) -> str:
        """Check a stored user's id like any other; a namespace before it does not count as characters."""
        return self._id(field, value, chars=len(own_part(value)), required=required)

    def _id(self, field: str, value: str, *, chars: int, required: bool) -> str:
        if not value and not required:
            return value
        if not value.strip():
            self.refuse(field, "must not be blank")
        elif chars > ID_MAX_CHARS:
            self.refuse(field, f"must be at most {ID_MAX_CHARS} characters")
        elif _CONTROL.search(value):
            self.refuse(field, "must not contain control characters")
        return value

    def identifiers(self, field: str, values: Sequence[str], *, most: int) -> None:
        """Check a list of ids, of which there has to be one."""
        self.entries(field, values, most=most)
        for position, value in enumerate(values[:most]):
            self.identifier(f"{field}[{position}]", value, required=True)

    def page_size(self, value: int) -> int:
        """Check a page's size. 0 means the default."""
        limits = self.settings.limits
        return self.amount("page_size", value, most=limits.max_page_size) or _PAGE_SIZE_DEFAULT

    def top_k(self, value: int) -> int:
        """Check how many messages are wanted. 0 means the default."""
        limits = self.settings.limits
        return self.amount("top_k", value, most=limits.max_top_k) or _TOP_K_DEFAULT

    def amount(self, field: str, value: int, *, most: int) -> int:
        """Check a number from 0 to `most`."""
        if value < 0:
            self.refuse(field, "must not be negative")
        elif value > most:
            self.refuse(field, f"must be at most {most}")
        return max(0, min(value, most))

    def entries(self, field: str, values: Sequence[object], *, most: int) -> None:
        """Check that a list is neither empty nor too long."""
        if not values:
            self.refuse(field, "must not be empty")
        elif len(values) > most:
            self.refuse(field, f"must have at most {most} entries")

    def text(self, field: str, value: str, *, most: int) -> str:
        """Check a free text: at most `most` characters, no NUL."""
        if "\0" in value:
            self.refuse(field, "must not contain NUL")
        if len(value) > most:
            self.refuse(field, f"must be at most {most} characters")
        return value

    def question(self, field: str, value: str) -> str:
        """Check the text of a search by meaning: not blank, no longer than a query."""
        if not value.strip():
            self.refuse(field, "must not be blank")
        return self.text(field, value, most=self.settings.limits.max_query_chars)

    def role(self, field: str, value: int, *, required: bool) -> Role | None:
        """Check a role. Return None for ROLE_UNSPECIFIED."""
        if value == message_pb2.ROLE_UNSPECIFIED:
            if required:
                self.refuse(field, "must be set")
            return None
        role = ROLES.get(value)
        if role is None:
            self.refuse(field, "is not a known role")
        return role

    def timestamp(self, field: str, value: Timestamp) -> int:
        """Check a time. Return it in microseconds since the epoch; nanoseconds are cut off."""
        seconds, nanos = value.seconds, value.nanos
        if not _FIRST_SECOND <= seconds <= _LAST_SECOND or not 0 <= nanos < _NANOS:
            self.refuse(field, "is not a time between the years 1 and 9999")
            return 0
        return seconds * MICROS + nanos // 1000

    def vector(self, field: str, values: Sequence[float], dimension: int) -> bytes:
        """Check a vector. Return it as little-endian float32."""
        if len(values) != dimension:
            self.refuse(field, f"must have {dimension} numbers, has {len(values)}")
            return b""
        vector = np.asarray(values, dtype="<f4")
        norm = float(np.linalg.norm(vector.astype("<f8")))
        if not math.isfinite(norm):
            self.refuse(field, "must be finite")
        elif norm == 0.0:
            self.refuse(field, "must not be all zero")
        return vector.tobytes()

    def metadata(self, field: str, value: Mapping[str, str], *, most: int) -> dict[str, str]:
        """Check metadata: at most `most` entries, and how long keys and values are. An error never quotes a key."""
        if not value:
            return {}
        if len(value) > most:
            self.refuse(field, f"must have at most {most} entries")
        if len(value) > _LOOKED_AT_MAX:
            return {}
        if any(not key.strip() or len(key) > _METADATA_KEY_MAX_CHARS or "\0" in key for key in value):
            self.refuse(field, f"keys must be 1 to {_METADATA_KEY_MAX_CHARS} characters, not blank, without NUL")
        if any(len(entry) > _METADATA_VALUE_MAX_CHARS or "\0" in entry for entry in value.values()):
            self.refuse(field, f"values must be at most {_METADATA_VALUE_MAX_CHARS} characters, without NUL")
        return dict(value)

    def narrowed(self, field: str, value: message_pb2.Filter) -> Filter:
        """Check a filter; an unset one admits everything."""
        if not value.ByteSize():
            return EVERYTHING
        span = value.time_range
        since = self.timestamp(f"{field}.time_range.since", span.since) if span.HasField("since") else None
        until = self.timestamp(f"{field}.time_range.until", span.until) if span.HasField("until") else None
        if since is not None and until is not None and since > until:
            self.refuse(f"{field}.time_range", "since must not be after until")
        return Filter(
            since_us=since,
            until_us=until,
            role=self.role(f"{field}.role", value.role, required=False),
            conversation_id=self.identifier(f"{field}.conversation_id", value.conversation_id, required=False),
            metadata=tuple(
                sorted(self.metadata(f"{field}.metadata", value.metadata, most=_FILTER_ENTRIES_MAX).items())
            ),
            exclude_conversation_ids=self.excluded(f"{field}.exclude_conversation_ids", value.exclude_conversation_ids),
        )

    def excluded(self, field: str, values: Sequence[str], most: int = EXCLUDED_CONVERSATIONS_MAX) -> tuple[str, ...]:
        """Check the conversations that are left out, of which there may be none. Return them sorted, each once."""
        if values:
            self.identifiers(field, values, most=most)
        return tuple(sorted(set(values[:most])))

    def mask(self, value: FieldMask) -> Mask:
        """Check the field mask of a request; an unset one is that of all fields."""
        paths = value.paths
        if len(paths) > _PATHS_MAX:
            self.refuse("return_fields", f"must have at most {_PATHS_MAX} entries")
        for path in paths[:_PATHS_MAX]:
            if path not in RETURNABLE:
                self.refuse("return_fields", f"messages have no field {path[:_QUOTED_CHARS]!r}")
        return frozenset(paths) | {"message_id"} if paths else None
