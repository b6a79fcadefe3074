"""Build a message from the fields that an import format has parsed."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Final

from nomemory.client.messages import RoleName, chat_message
from nomemory.importing.record import AcceptedMessage, RejectedRecord, SourceLocation

ORIGINAL_ROLE: Final = "original_role"
"""Metadata key for the role in the source, if it differs from the stored role."""


ROLES: Final[Mapping[str, RoleName]] = MappingProxyType(
    {
        "user": "user",
        "assistant": "assistant",
        "system": "system",
        "developer": "system",
        "tool": "tool",
        "function": "tool",
    }
)
METADATA_VALUE_CHARS: Final = 1024  # the limit in the API definition


def map_role(source_role: str) -> tuple[RoleName | None, dict[str, str]]:
    """Convert a role of the source format.

    Return the role, which is None if `source_role` is unknown, and metadata with the original role if it differs.
    """
    normalized = source_role.lower().removeprefix("role_")
    role = ROLES.get(normalized)
    return role, {} if role in {normalized, None} else {ORIGINAL_ROLE: normalized}


@dataclass(frozen=True, slots=True)
class ParsedMessage:
    """Fields of one message, as parsed from a file.

    Attributes:
        ts: the time of the message; None only if an error was recorded, so that the message will be rejected.
        role: the role in the file, which `map_role` converts.
        content: the text of the message.
        message_id: if empty, a stable id is derived from the other fields.
        keeps_id: whether `message_id` must be kept, even if messages with the same time are then not in the order of
            the file.
        position: a part of the derived id that distinguishes messages whose other fields are equal.
        ignored: names of fields in the file that a message cannot store.
    """

    user_id: str
    ts: datetime | None
    role: str
    content: str
    message_id: str = ""
    keeps_id: bool = True
    position: str = ""
    name: str = ""
    conversation_id: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    expire_ts: datetime | None = None
    retracts: Sequence[str] = ()
    ignored: tuple[str, ...] = ()

    def build(
        self, location: SourceLocation, original: object, parse_errors: Iterable[str]
    ) -> AcceptedMessage | RejectedRecord:
        """Build the message, or reject it if there are `parse_errors` or a field is invalid."""
        reasons = list(parse_errors)
        role, role_metadata = map_role(self.role)
        if role is None:
            reasons.append(f"role: must be one of {', '.join(ROLES)}")
        if role is None or self.ts is None or reasons:
            return RejectedRecord(location, original, tuple(reasons))
        try:
            message = chat_message(
                user_id=self.user_id,
                message_id=self.message_id or self._derive_stable_id(),
                ts=self.ts,
                role=role,
                content=self.content,
                name=self.name,
                conversation_id=self.conversation_id,
                metadata={**self.metadata, **role_metadata},
                expire_ts=self.expire_ts,
                retracts=self.retracts,
            )
        except UnicodeEncodeError:
            return RejectedRecord(
                location, original, ("a text contains an unpaired surrogate, which is not valid Unicode",)
            )
        except ValueError as error:
            return RejectedRecord(location, original, (str(error),))
        return AcceptedMessage(
            location, original, message, self.ignored, keeps_id=self.keeps_id and bool(self.message_id)
        )

    def _derive_stable_id(self) -> str:
        moment = self.ts.timestamp() if self.ts else None
        return derive_message_id(
            "i", self.user_id, self.conversation_id, self.position, moment, self.role, self.name, self.content
        )


def derive_message_id(prefix: str, *parts: object) -> str:
    """Return a message id of 28 characters that is a hash of the parts."""
    digest = hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).digest()
    return f"{prefix}_{base64.b32encode(digest).decode().rstrip('=').lower()}"


def format_metadata_value(value: object) -> str:
    """Convert a metadata value to text. A string is returned unchanged; other values become JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
