"""A message under construction: formats fill it in; it becomes a message or a refusal."""

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
from nomemory.importing.record import Accepted, SourceLocation, Rejected

ORIGINAL_ROLE: Final = "original_role"
"""The metadata key that marks a message whose role was another one in the source."""


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
METADATA_VALUE_CHARS: Final = 1024  # the contract's limit


def speaker(role: str) -> tuple[RoleName | None, dict[str, str]]:
    """Return the role of a message (None: nothing corresponds to it), and the mark that keeps the source's own word."""
    word = role.lower().removeprefix("role_")
    known = ROLES.get(word)
    return known, {} if known in {word, None} else {ORIGINAL_ROLE: word}


@dataclass(frozen=True, slots=True)
class MessageDraft:
    """What a format found out about one message.

    `role` is the source's own word. Without a `message_id` a stable one is derived; `position` tells apart what is
    otherwise equal. A derived id may be changed to keep the order of the file, and so may a given one unless it
    `keeps_id`. Where `ts` is None there is a reason to refuse it.
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

    def build(self, place: SourceLocation, original: object, found_wrong: Iterable[str]) -> Accepted | Rejected:
        """Make the message, or say everything that is wrong with it, beside what the format itself found wrong."""
        reasons = list(found_wrong)
        role, mark = speaker(self.role)
        if role is None:
            reasons.append(f"role: must be one of {', '.join(ROLES)}")
        if role is None or self.ts is None or reasons:
            return Rejected(place, original, tuple(reasons))
        try:
            message = chat_message(
                user_id=self.user_id,
                message_id=self.message_id or self._derived_id(),
                ts=self.ts,
                role=role,
                content=self.content,
                name=self.name,
                conversation_id=self.conversation_id,
                metadata={**self.metadata, **mark},
                expire_ts=self.expire_ts,
                retracts=self.retracts,
            )
        except UnicodeEncodeError:
            return Rejected(place, original, ("a text in it is not valid Unicode (half of a surrogate pair)",))
        except ValueError as error:
            return Rejected(place, original, (str(error),))
        return Accepted(place, original, message, self.ignored, keeps_id=self.keeps_id and bool(self.message_id))

    def _derived_id(self) -> str:
        moment = self.ts.timestamp() if self.ts else None
        return derived_id(
            "i", self.user_id, self.conversation_id, self.position, moment, self.role, self.name, self.content
        )


def derived_id(prefix: str, *parts: object) -> str:
    """Derive an id of 28 characters that is the same for the same parts, today and on another machine."""
    digest = hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).digest()
    return f"{prefix}_{base64.b32encode(digest).decode().rstrip('=').lower()}"


def metadata_text(value: object) -> str:
    """Write a metadata value as text: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
