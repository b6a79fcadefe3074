"""Validation of request fields.

A `FieldChecker` collects the violations of a request. The fault that rejects the request lists all violations.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import numpy as np
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp

from nomemory.server.api.identity.namespace import remove_namespace_prefix
from nomemory.server.faults import Violation, build_invalid_argument_fault
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
"""Names of the message fields to return; None for all fields."""
RETURNABLE_FIELDS = frozenset(message_pb2.ChatMessage.DESCRIPTOR.fields_by_name) - {"embedding"}
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799  # years 1 to 9999, the range of Timestamp
_NANOS = 1_000_000_000
_QUOTED_CHARS = 40
_FILTER_ENTRIES_MAX = 4
EXCLUDED_CONVERSATIONS_MAX: Final = 16
_PATHS_MAX = 100
_VALIDATED_ENTRIES_MAX = 1_000
"""Metadata with more entries is rejected without checking its keys and values."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@contextmanager
def collect_violations(settings: Settings) -> Iterator[FieldChecker]:
    """Provide a checker, and raise a fault with its violations, if any, when the context ends.

    Raises:
        Fault: INVALID_FIELD, with all violations of the request.
    """
    checker = FieldChecker(settings)
    yield checker
    if checker.violations:
        raise build_invalid_argument_fault(checker.violations)


class FieldChecker:
    """Validates the fields of a request and collects their violations.

    The value that a method returns for an invalid field must not be used.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.violations: list[Violation] = []

    def add_violation(self, field: str, description: str) -> None:
        """Record a violation."""
        self.violations.append(Violation(field, description))

    def check_identifier(self, field: str, value: str, *, required: bool) -> str:
        """Validate an id, which has at most `ID_MAX_CHARS` characters and no control characters.

        The id may be empty unless it is required.
        """
        return self._check_id(field, value, chars=len(value), required=required)

    def check_user_id(self, field: str, value: str, *, required: bool = True) -> str:
        """Validate a stored user id, whose namespace prefix does not count towards the maximum length."""
        return self._check_id(field, value, chars=len(remove_namespace_prefix(value)), required=required)

    def _check_id(self, field: str, value: str, *, chars: int, required: bool) -> str:
        if not value and not required:
            return value
        if not value.strip():
            self.add_violation(field, "must not be blank")
        elif chars > ID_MAX_CHARS:
            self.add_violation(field, f"must be at most {ID_MAX_CHARS} characters")
        elif _CONTROL.search(value):
            self.add_violation(field, "must not contain control characters")
        return value

    def check_identifiers(self, field: str, values: Sequence[str], *, maximum: int) -> None:
        """Validate that a list has 1 to `maximum` ids, and validate each id."""
        self.check_list_length(field, values, maximum=maximum)
        for position, value in enumerate(values[:maximum]):
            self.check_identifier(f"{field}[{position}]", value, required=True)

    def check_page_size(self, value: int) -> int:
        """Validate a page size and return it, or the default page size if it is 0."""
        limits = self.settings.limits
        return self.check_int("page_size", value, maximum=limits.max_page_size) or _PAGE_SIZE_DEFAULT

    def check_top_k(self, value: int) -> int:
        """Validate a maximum number of results and return it, or the default if it is 0."""
        limits = self.settings.limits
        return self.check_int("top_k", value, maximum=limits.max_top_k) or _TOP_K_DEFAULT

    def check_int(self, field: str, value: int, *, maximum: int) -> int:
        """Validate an integer from 0 to `maximum`."""
        if value < 0:
            self.add_violation(field, "must not be negative")
        elif value > maximum:
            self.add_violation(field, f"must be at most {maximum}, got {value}")
        return max(0, min(value, maximum))

    def check_list_length(self, field: str, values: Sequence[object], *, maximum: int) -> None:
        """Validate that a list has 1 to `maximum` entries."""
        if not values:
            self.add_violation(field, "must not be empty")
        elif len(values) > maximum:
            self.add_violation(field, f"must have at most {maximum} entries")

    def check_text(self, field: str, value: str, *, maximum: int) -> str:
        """Validate that a text has at most `maximum` characters and no NUL."""
        if "\0" in value:
            self.add_violation(field, "must not contain NUL")
        if len(value) > maximum:
            self.add_violation(field, f"must be at most {maximum} characters")
        return value

    def check_question(self, field: str, value: str) -> str:
        """Validate that the text of a search is not blank and has at most `max_query_chars` characters."""
        if not value.strip():
            self.add_violation(field, "must not be blank")
        return self.check_text(field, value, maximum=self.settings.limits.max_query_chars)

    def check_role(self, field: str, value: int, *, required: bool) -> Role | None:
        """Validate a role and return it, or None for ROLE_UNSPECIFIED."""
        if value == message_pb2.ROLE_UNSPECIFIED:
            if required:
                self.add_violation(field, "must be set")
            return None
        role = ROLES.get(value)
        if role is None:
            self.add_violation(field, f"unknown role {value}")
        return role

    def check_timestamp(self, field: str, value: Timestamp) -> int:
        """Validate a timestamp and return it in microseconds since the Unix epoch, rounded down."""
        seconds, nanos = value.seconds, value.nanos
        if not _FIRST_SECOND <= seconds <= _LAST_SECOND or not 0 <= nanos < _NANOS:
            self.add_violation(field, "must be a time between the years 1 and 9999")
            return 0
        return seconds * MICROS + nanos // 1000

    def check_vector(self, field: str, values: Sequence[float], dimension: int) -> bytes:
        """Validate a vector and return it as little-endian float32 bytes."""
        if len(values) != dimension:
            self.add_violation(field, f"expected {dimension} dimensions, got {len(values)}")
            return b""
        vector = np.asarray(values, dtype="<f4")
        norm = float(np.linalg.norm(vector.astype("<f8")))
        if not math.isfinite(norm):
            self.add_violation(field, "must not contain NaN or infinity")
        elif norm == 0.0:
            self.add_violation(field, "must not be the zero vector")
        return vector.tobytes()

    def check_metadata(self, field: str, value: Mapping[str, str], *, maximum: int) -> dict[str, str]:
        """Validate the number of metadata entries and the lengths of their keys and values.

        A violation never quotes a key.
        """
        if not value:
            return {}
        if len(value) > maximum:
            self.add_violation(field, f"must have at most {maximum} entries")
        if len(value) > _VALIDATED_ENTRIES_MAX:
            return {}
        if any(not key.strip() or len(key) > _METADATA_KEY_MAX_CHARS or "\0" in key for key in value):
            self.add_violation(field, f"keys must be 1 to {_METADATA_KEY_MAX_CHARS} characters, not blank, without NUL")
        if any(len(entry) > _METADATA_VALUE_MAX_CHARS or "\0" in entry for entry in value.values()):
            self.add_violation(field, f"values must be at most {_METADATA_VALUE_MAX_CHARS} characters, without NUL")
        return dict(value)

    def check_filter(self, field: str, value: message_pb2.Filter) -> Filter:
        """Validate a filter. A filter that is unset matches all messages."""
        if not value.ByteSize():
            return EVERYTHING
        span = value.time_range
        since = self.check_timestamp(f"{field}.time_range.since", span.since) if span.HasField("since") else None
        until = self.check_timestamp(f"{field}.time_range.until", span.until) if span.HasField("until") else None
        if since is not None and until is not None and since > until:
            self.add_violation(f"{field}.time_range", "`since` must not be after `until`")
        return Filter(
            since_us=since,
            until_us=until,
            role=self.check_role(f"{field}.role", value.role, required=False),
            conversation_id=self.check_identifier(f"{field}.conversation_id", value.conversation_id, required=False),
            metadata=tuple(
                sorted(self.check_metadata(f"{field}.metadata", value.metadata, maximum=_FILTER_ENTRIES_MAX).items())
            ),
            exclude_conversation_ids=self.check_excluded_conversations(
                f"{field}.exclude_conversation_ids", value.exclude_conversation_ids
            ),
        )

    def check_excluded_conversations(
        self, field: str, values: Sequence[str], maximum: int = EXCLUDED_CONVERSATIONS_MAX
    ) -> tuple[str, ...]:
        """Validate the ids of excluded conversations, and return them sorted and without duplicates."""
        if values:
            self.check_identifiers(field, values, maximum=maximum)
        return tuple(sorted(set(values[:maximum])))

    def check_mask(self, value: FieldMask) -> Mask:
        """Validate the field mask of a request, which selects all fields if it is unset."""
        paths = value.paths
        if len(paths) > _PATHS_MAX:
            self.add_violation("return_fields", f"must have at most {_PATHS_MAX} entries, got {len(paths)}")
        for path in paths[:_PATHS_MAX]:
            if path not in RETURNABLE_FIELDS:
                self.add_violation("return_fields", f"unknown message field {path[:_QUOTED_CHARS]!r}")
        return frozenset(paths) | {"message_id"} if paths else None
