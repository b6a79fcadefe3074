"""The transcripts of coding agents: Claude Code's, Codex's, Cursor's. A record is a line of one session.

A message has the same id whoever reads the transcript, and whenever, so the hooks and an import store it once. For that
it depends on nothing but its own line, on the first line of the file, and on what was called earlier in the same turn.
What people and the agent said is kept whole, what tools answered is cut, and secrets of known forms are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import PurePath
from typing import Any, Final

from nomemory.importing.draft import METADATA_VALUE_CHARS, Draft, Given, Parsed, Record, Skipped, derived_id
from nomemory.importing.fields import Fields, Importer, drafted, read_content
from nomemory.importing.secret_shapes import without_secrets

_SAID_CHARS: Final = 60_000
"""So that the content of a message, four bytes a character, is not longer than a server takes."""
_TOOL_CHARS: Final = 2_000
_TOOL_TAIL_CHARS: Final = 500
_OURS: Final = "nomemory"
"""A tool with this in its name has shown what is stored already."""
_FROM_THE_AGENT: Final = re.compile(r"\s*(?:# AGENTS\.md instructions for|<([A-Za-z_]\w*)>.*</\1>\s*\Z)", re.DOTALL)
"""What Codex puts into the user's place: a part that is all one element, or a file of instructions."""
_ASKED: Final = re.compile(r"<user_query>\n?(.*?)\n?</user_query>", re.DOTALL)
_NO_TIME: Final = "the transcript has no times; give the time of the first message with --start"


def kept(text: str, role: str) -> str:
    """Return what is stored of a text: without secrets, and not too long. Of what a tool answered the end counts, too.

    Args:
        text: what was said.
        role: who said it.
    """
    said = without_secrets(text)
    most, tail = (_TOOL_CHARS, _TOOL_TAIL_CHARS) if role == "tool" else (_SAID_CHARS, 0)
    if len(said) <= most:
        return said
    end = said[-tail:] if tail else ""
    return f"{said[: most - tail]}\n[{len(said) - most:,} characters left out]\n{end}".rstrip("\n")


def about(agent: str, directory: str) -> dict[str, str]:
    """Return the metadata of a turn: the agent, and the project, by the name of its directory."""
    project = PurePath(directory).name[:METADATA_VALUE_CHARS]
    return {"agent": agent, **({"project": project} if project else {})}


def turn_id(session: str, own: str) -> str:
    """Return the id of a message: short, as it stands in prompts, and the same for the same ids of the agent.

    Args:
        session: the session's id.
        own: the message's id in it.
    """
    return derived_id("t", session, own)


class _Transcript(Importer):
    """What the readers have in common."""

    def __init__(self, given: Given) -> None:
        super().__init__(given)
        self._called: dict[str, str] = {}

    def _noted_call(self, call_id: object, name: object) -> None:
        if isinstance(call_id, str) and isinstance(name, str):
            self._called[call_id] = name

    def _tool_name(self, call_id: object) -> str:
        return self._called.get(call_id, "") if isinstance(call_id, str) else ""


class ClaudeCode(_Transcript):
    """Reads lines `{type, uuid, timestamp, sessionId, cwd, message: {role, content}, …}`.

    Skipped is what nobody said: the program's own notes, summaries, and the talk between the agent and its sub-agents.
    """

    name = "claude-code"
    title = "Claude Code transcript"

    @staticmethod
    def matches(value: object) -> bool:
        """Recognise a line by its type and what it belongs to."""
        return isinstance(value, dict) and "type" in value and bool({"sessionId", "leafUuid", "snapshot"} & set(value))

    def messages(self, record: Record) -> Iterator[Parsed]:
        """Return what a line says: a text, or what tools answered."""
        line = record.value
        parts = _parts(line) if isinstance(line, dict) and line.get("type") in ("user", "assistant") else []
        if not parts or any(line.get(mark) for mark in ("isSidechain", "isMeta", "isCompactSummary")):
            yield Skipped(record.place)
            return
        texts = [part for part in parts if part.get("type") == "text"]
        yield drafted(record, lambda fields: self._draft(fields, line["type"], texts, fields.text("uuid")))
        for number, part in enumerate(parts):
            self._noted_call(part.get("id"), part.get("name"))
            if part.get("type") == "tool_result":
                yield drafted(record, partial(self._answer, part, number))

    def _answer(self, part: Mapping[str, Any], number: int, fields: Fields) -> Draft | None:
        name = self._tool_name(part.get("tool_use_id"))
        message_id = f"{fields.text('uuid')}:{number}"
        return None if _OURS in name else self._draft(fields, "tool", part.get("content"), message_id, name)

    def _draft(self, fields: Fields, role: str, content: object, message_id: str, name: str = "") -> Draft | None:
        text, _ = read_content(content)
        session = fields.text("sessionId", required=True)
        if not text.strip():
            return None
        return Draft(
            user_id=self.user,
            ts=fields.moment("timestamp", required=True),
            role=role,
            content=kept(text, role),
            message_id=turn_id(session, message_id),
            name=name,
            conversation_id=session,
            metadata=about(self.name, fields.text("cwd")),
        )


class Codex(_Transcript):
    """Reads lines `{timestamp, type, payload}`; the first one says which session it is, and where it runs."""

    name = "codex"
    title = "Codex transcript"

    def __init__(self, given: Given) -> None:
        super().__init__(given)
        self._session: Fields | None = None

    @staticmethod
    def matches(value: object) -> bool:
        """Recognise a line by its parts."""
        return (
            isinstance(value, dict) and {"timestamp", "type"} <= set(value) and isinstance(value.get("payload"), dict)
        )

    def messages(self, record: Record) -> Iterator[Parsed]:
        """Return what a line says: a text, or what a tool answered."""
        line = record.value
        payload = line.get("payload") if isinstance(line, dict) else None
        if not isinstance(payload, dict) or line.get("type") not in ("session_meta", "response_item"):
            yield Skipped(record.place)
        elif line["type"] == "session_meta":
            self._session = self._session or Fields(payload)
            yield Skipped(record.place)
        else:
            self._noted_call(payload.get("call_id"), payload.get("name"))
            yield drafted(record, lambda fields: self._draft(fields, payload))

    def _draft(self, fields: Fields, payload: Mapping[str, Any]) -> Draft | None:
        role, text, name = self._said(payload)
        if role not in {"user", "assistant", "tool"} or not text.strip() or _OURS in name:
            return None
        session = self._session or Fields({})
        session_id, given_id = session.text("id"), Fields(payload).text("id")
        if not session_id:
            fields.reasons.append("session_meta: is missing before this line")
        own = given_id or derived_id("i", fields.text("timestamp"), role, text)
        return Draft(
            user_id=self.user,
            ts=fields.moment("timestamp", required=True),
            role=role,
            content=kept(text, role),
            message_id=turn_id(session_id, own),
            name=name,
            conversation_id=session_id,
            metadata=about(self.name, session.text("cwd")),
        )

    def _said(self, payload: Mapping[str, Any]) -> tuple[str, str, str]:
        """Return who speaks, what they say, and the tool's name."""
        kind = payload.get("type")
        if kind == "message":
            parts = payload.get("content")
            parts = parts if isinstance(parts, list) else [parts]
            texts = [read_content(part)[0] for part in parts]
            if payload.get("role") == "user":
                texts = [text for text in texts if not _FROM_THE_AGENT.match(text)]
            return str(payload.get("role")), "\n".join(filter(None, texts)), ""
        if kind in ("function_call_output", "custom_tool_call_output"):
            return "tool", read_content(payload.get("output"))[0], self._tool_name(payload.get("call_id"))
        return "", "", ""


class Cursor(_Transcript):
    """Reads lines `{role, message: {content}}`. They have no times and no ids; the n-th was said at `start + n * step`.

    The session is the name of the file.
    """

    name = "cursor"
    title = "Cursor transcript"

    def __init__(self, given: Given) -> None:
        super().__init__(given)
        self._number = 0

    @staticmethod
    def matches(value: object) -> bool:
        """Recognise a line by its role and the message beside it."""
        return isinstance(value, dict) and "role" in value and isinstance(value.get("message"), dict)

    def messages(self, record: Record) -> Iterator[Parsed]:
        """Return what a line says."""
        if isinstance(record.value, dict) and "role" not in record.value:
            yield Skipped(record.place)
        else:
            yield drafted(record, self._draft)

    def _draft(self, fields: Fields) -> Draft | None:
        texts = [part for part in _parts(fields.value) if part.get("type") == "text"]
        text = read_content(texts)[0]
        asked = _ASKED.findall(text)
        text = "\n".join(asked) if asked else text
        if not text.strip():
            return None
        if self.given.start is None:
            fields.reasons.append(f"ts: {_NO_TIME}")
        self._number += 1
        role = fields.text("role")
        return Draft(
            user_id=self.user,
            ts=self.given.start and self.given.start + (self._number - 1) * self.given.step,
            role=role,
            content=kept(text, role),
            position=str(self._number),
            conversation_id=self.given.file,
            metadata=about(self.name, ""),
        )


def _parts(line: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the parts of the message of a line; a text is a part, too."""
    message = line.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
