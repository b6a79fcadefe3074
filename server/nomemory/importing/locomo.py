"""LoCoMo's own JSON: samples of long conversations between two friends, in dated sessions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from nomemory.importing.draft import METADATA_VALUE_CHARS, Draft, Parsed, Record, Refused
from nomemory.importing.fields import Fields, Importer, drafted

TURN: Final = timedelta(seconds=20)
"""How far apart turns are set: the data dates sessions, not turns."""

_SESSION: Final = re.compile(r"session_(\d+)")
_SESSION_TIME: Final = "%I:%M %p on %d %B, %Y"


class Locomo(Importer):
    """Reads samples: `{sample_id, conversation: {session_1_date_time, session_1: [turn, …], …}}`.

    Both speakers are people, so both have the role `user` and are told apart by `name`. Session times carry no zone
    and are taken as UTC. Without a user of the command line each sample is one; with one the ids carry the sample's id.
    """

    name = "locomo"
    title = "LoCoMo"
    names_users = True
    required = "conversation: is required"

    @staticmethod
    def matches(value: object) -> bool:
        """Recognise a sample by its conversation."""
        return isinstance(value, dict) and isinstance(value.get("conversation"), dict)

    def messages(self, record: Record) -> Iterator[Parsed]:
        """Return the turns of a sample, session by session."""
        sample_id = record.value.get("sample_id")
        if not isinstance(sample_id, str) or not sample_id:
            yield Refused(record.place, record.original, ("sample_id: is required",))
            return
        for session, turns, start in _sessions(record.value["conversation"]):
            for number, turn in enumerate(turns):
                part = record.part(f"{sample_id}, {session}, turn {number + 1}", turn)
                yield drafted(part, partial(self._draft, sample_id, session, start and start + number * TURN))

    def _draft(self, sample_id: str, session: str, ts: datetime | None, fields: Fields) -> Draft:
        prefix = f"{sample_id}:" if self.user else ""
        caption = fields.text("blip_caption")
        text = fields.text("text", required=not caption)
        dia_id = fields.text("dia_id", required=True)
        if ts is None:
            fields.reasons.append(f"{session}_date_time: is not a time like 1:56 pm on 8 May, 2023")
        return Draft(
            user_id=self.user or sample_id,
            ts=ts,
            role="user",
            content="\n".join(filter(None, (text, caption and f"[Image] {caption}"))),
            message_id=f"{prefix}{dia_id}",
            name=fields.text("speaker", required=True),
            conversation_id=f"{prefix}{session}",
            metadata=_picture(fields.value),
        )


def _sessions(conversation: dict[str, object]) -> Iterator[tuple[str, list[object], datetime | None]]:
    """Return each session that has turns, in order: its name, its turns, and when it began (None: unreadable)."""
    names = [match for match in map(_SESSION.fullmatch, conversation) if match]
    for match in sorted(names, key=lambda name: int(name[1])):
        turns = conversation[match[0]]
        if isinstance(turns, list):
            yield match[0], turns, _session_time(conversation.get(f"{match[0]}_date_time"))


def _session_time(text: object) -> datetime | None:
    try:
        return datetime.strptime(str(text), _SESSION_TIME).replace(tzinfo=UTC)
    except ValueError:
        return None


def _picture(turn: Mapping[str, object]) -> dict[str, str]:
    """Keep what the data says about the picture that was shared with a turn."""
    urls = turn.get("img_url")
    found = {"image_query": turn.get("query"), "image_url": urls[0] if isinstance(urls, list) and urls else urls}
    return {key: text for key, text in found.items() if isinstance(text, str) and 0 < len(text) <= METADATA_VALUE_CHARS}
