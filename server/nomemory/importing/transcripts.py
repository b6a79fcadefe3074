"""The transcripts of coding agents: Claude Code's, Codex's, Cursor's. A record is a line of one session.

A message has the same id whoever reads the transcript, and whenever, so the hooks and an import store it once. For that
it depends on nothing but its own line, on the first line of the file, and on what was called earlier in the same turn.
What people and the agent said is kept whole, what tools answered is cut, and secrets of known forms are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import PurePath
from typing import Any, Final, NamedTuple

from nomemory.importing.message_builder import METADATA_VALUE_CHARS, MessageDraft, derived_id
from nomemory.importing.fields import Fields, Importer, parse_message, read_content
from nomemory.importing.record import ImportDefaults, ParseResult, Record, Skipped
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
_NOT_SAID: Final = ("isSidechain", "isMeta", "isCompactSummary")
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


class _Said(NamedTuple):
    """What a line says: who speaks, the text, the agent's own id for it, and the tool's name."""

    role: str
    text: str
    own_id: str
    name: str = ""


class _Transcript(Importer):
    """What the readers have in common: a line says nothing, or something in a session, in a directory."""

    def __init__(self, given: ImportDefaults) -> None:
        super().__init__(given)
        self._session = self._directory = ""
        self._called: dict[object, str] = {}

    def messages(self, record: Record) -> Iterator[ParseResult]:
        """Return what a line says."""
        said = [one for one in self._said(record.value) if one.text.strip() and _OURS not in one.name]
        yield from (parse_message(record, partial(self._draft, one)) for one in said)
        if not said:
            yield Skipped(record.location)

    def _said(self, line: Any) -> Iterator[_Said]:  # noqa: ANN401 - whatever JSON has
        raise NotImplementedError

    def _moment(self, fields: Fields) -> datetime | None:
        return fields.moment("timestamp", required=True)

    def _draft(self, said: _Said, fields: Fields) -> MessageDraft:
        ts = self._moment(fields)
        return MessageDraft(
            user_id=self.user,
            ts=ts,
            role=said.role,
            content=kept(said.text, said.role),
            message_id=turn_id(self._session, said.own_id or derived_id("i", str(ts), said.role, said.text)),
            name=said.name,
            conversation_id=self._session,
            metadata=about(self.name, self._directory),
        )

    def _note_call(self, call_id: object, name: object) -> None:
        if isinstance(call_id, str) and isinstance(name, str):
            self._called[call_id] = name

    def _answer(self, call_id: object, content: object, own_id: str) -> _Said:
        name = self._called.get(call_id, "") if isinstance(call_id, str) else ""
        return _Said("tool", read_content(content)[0], own_id, name)


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

    def _said(self, line: Any) -> Iterator[_Said]:  # noqa: ANN401 - whatever JSON has
        if not isinstance(line, dict) or line.get("type") not in ("user", "assistant") or any(map(line.get, _NOT_SAID)):
            return
        fields, parts = Fields(line), _parts(line)
        self._session, self._directory, own_id = fields.text("sessionId"), fields.text("cwd"), fields.text("uuid")
        yield _Said(line["type"], _text(parts), own_id)
        for number, part in enumerate(parts):
            self._note_call(part.get("id"), part.get("name"))
            if part.get("type") == "tool_result":
                yield self._answer(part.get("tool_use_id"), part.get("content"), f"{own_id}:{number}")


class Codex(_Transcript):
    """Reads lines `{timestamp, type, payload}`; the first one says which session it is, and where it runs."""

    name = "codex"
    title = "Codex transcript"

    @staticmethod
    def matches(value: object) -> bool:
        """Recognise a line by its parts."""
        return (
            isinstance(value, dict) and {"timestamp", "type"} <= set(value) and isinstance(value.get("payload"), dict)
        )

    def _said(self, line: Any) -> Iterator[_Said]:  # noqa: ANN401 - whatever JSON has
        payload = line.get("payload") if isinstance(line, dict) else None
        if not isinstance(payload, dict):
            return
        fields, kind = Fields(payload), (line.get("type"), payload.get("type"))
        self._note_call(payload.get("call_id"), payload.get("name"))
        if kind[0] == "session_meta" and not self._session:
            self._session, self._directory = fields.text("id"), fields.text("cwd")
        elif kind == ("response_item", "message") and payload.get("role") in ("user", "assistant"):
            content = payload.get("content")
            texts = [read_content(part)[0] for part in (content if isinstance(content, list) else [content])]
            own = [text for text in texts if payload["role"] != "user" or not _FROM_THE_AGENT.match(text)]
            yield _Said(payload["role"], "\n".join(filter(None, own)), fields.text("id"))
        elif kind in (("response_item", "function_call_output"), ("response_item", "custom_tool_call_output")):
            yield self._answer(payload.get("call_id"), payload.get("output"), fields.text("id"))


class Cursor(_Transcript):
    """Reads lines `{role, message: {content}}`. They have no times and no ids; the n-th was said at `start + n * step`.

    The session is the name of the file.
    """

    name = "cursor"
    title = "Cursor transcript"

    def __init__(self, given: ImportDefaults) -> None:
        super().__init__(given)
        self._session = given.file
        self._number = 0

    @staticmethod
    def matches(value: object) -> bool:
        """Recognise a line by its role and the message beside it."""
        return isinstance(value, dict) and "role" in value and isinstance(value.get("message"), dict)

    def _said(self, line: Any) -> Iterator[_Said]:  # noqa: ANN401 - whatever JSON has
        if not isinstance(line, dict) or line.get("role") not in ("user", "assistant"):
            return
        text = _text(_parts(line))
        asked = _ASKED.findall(text)
        self._number += 1
        yield _Said(line["role"], "\n".join(asked) if asked else text, str(self._number))

    def _moment(self, fields: Fields) -> datetime | None:
        if self.given.start is None:
            fields.reasons.append(f"ts: {_NO_TIME}")
            return None
        return self.given.start + (self._number - 1) * self.given.step


def _text(parts: Sequence[Mapping[str, Any]]) -> str:
    return read_content([part for part in parts if part.get("type") == "text"])[0]


def _parts(line: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the parts of the message of a line; a text is a part, too."""
    message = line.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
