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
from nomemory.importing.record import Accepted, Rejected, SourceLocation

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
    """Return the role that corresponds to a source role (None if unknown), and metadata with the source role."""
    normalized = source_role.lower().removeprefix("role_")
    role = ROLES.get(normalized)
    return role, {} if role in {normalized, None} else {ORIGINAL_ROLE: normalized}


@dataclass(frozen=True, slots=True)
class MessageDraft:
    """The parsed fields of one message.

    Attributes:
        user_id: the user id.
        ts: the time; None only if a reason for rejection was recorded.
        role: the role in the source.
        content: the text.
        message_id: the id; empty to derive a stable one from the other fields.
        keeps_id: whether `message_id` must not change. Other ids may be changed to keep the order of the file.
        position: distinguishes messages that are otherwise equal when an id is derived.
        name: the speaker's name.
        conversation_id: the conversation id.
        expire_ts: the expiry time.
        retracts: ids of the messages that this message retracts.
        ignored: fields of the source that a message cannot store.
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

    def build(self, location: SourceLocation, original: object, parse_errors: Iterable[str]) -> Accepted | Rejected:
        """Build the message, or reject it with `parse_errors` and all further errors."""
        reasons = list(parse_errors)
        role, role_metadata = map_role(self.role)
        if role is None:
            reasons.append(f"role: must be one of {', '.join(ROLES)}")
        if role is None or self.ts is None or reasons:
            return Rejected(location, original, tuple(reasons))
        try:
            message = chat_message(
                user_id=self.user_id,
                message_id=self.message_id or self._derive_id(),
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
            return Rejected(location, original, ("a text contains an unpaired surrogate, which is not valid Unicode",))
        except ValueError as error:
            return Rejected(location, original, (str(error),))
        return Accepted(location, original, message, self.ignored, keeps_id=self.keeps_id and bool(self.message_id))

    def _derive_id(self) -> str:
        moment = self.ts.timestamp() if self.ts else None
        return hash_to_id(
            "i", self.user_id, self.conversation_id, self.position, moment, self.role, self.name, self.content
        )


def hash_to_id(prefix: str, *parts: object) -> str:
    """Return a 28-character id that is a hash of the parts."""
    digest = hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).digest()
    return f"{prefix}_{base64.b32encode(digest).decode().rstrip('=').lower()}"


def metadata_text(value: object) -> str:
    """Return a metadata value as text: strings unchanged, other values as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
