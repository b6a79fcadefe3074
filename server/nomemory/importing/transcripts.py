"""Import transcripts of the coding agents Claude Code, Codex and Cursor.

A transcript has one JSON record per line. Message ids are stable: if both a hook and an import read a message, it is
stored once. An imported message depends only on its line, the first line of the file, and the preceding tool calls of
the turn. Tool output is truncated, and secrets that match a known pattern are redacted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import PurePath
from typing import Any, Final, NamedTuple

from nomemory.importing.fields import Importer, JsonFields, parse_message, read_content
from nomemory.importing.message_builder import METADATA_VALUE_CHARS, ParsedMessage, derive_message_id
from nomemory.importing.record import ImportDefaults, ParseResult, Record, SkippedRecord
from nomemory.importing.secret_redaction import redact_secrets

_CONTENT_CHARS: Final = 60_000
"""Maximum length of a message. At four bytes per character, a message is within the server's size limit."""
_TOOL_CHARS: Final = 2_000
_TOOL_TAIL_CHARS: Final = 500
OWN_TOOLS: Final = "nomemory"
"""Text in the names of NoMemory's own tools, which return messages that are already stored."""
_INSERTED_BY_CODEX: Final = re.compile(r"\s*(?:# AGENTS\.md instructions for|<([A-Za-z_]\w*)>.*</\1>\s*\Z)", re.DOTALL)
"""Text that Codex inserts with the role `user`: a single XML element, or the contents of AGENTS.md."""
_END_OF_QUERY: Final = "</user_query>"
_USER_QUERY: Final = re.compile(r"<user_query>\n?(.*?)\n?</user_query>", re.DOTALL)
_SKIPPED_FLAGS: Final = ("isSidechain", "isMeta", "isCompactSummary")
_NO_TIME: Final = "the transcript has no times; set the time of the first message with --start"


def prepare_content(text: str, role: str) -> str:
    """Redact secrets in a message, and truncate it to the limit for its role.

    The last 500 characters of truncated tool output are kept.
    """
    redacted = redact_secrets(text)
    max_chars, tail_chars = (_TOOL_CHARS, _TOOL_TAIL_CHARS) if role == "tool" else (_CONTENT_CHARS, 0)
    if len(redacted) <= max_chars:
        return redacted
    tail = redacted[-tail_chars:] if tail_chars else ""
    head = redacted[: max_chars - tail_chars]
    return f"{head}\n[{len(redacted) - max_chars:,} characters left out]\n{tail}".rstrip("\n")


def build_turn_metadata(agent: str, directory: str) -> dict[str, str]:
    """Return message metadata with the agent, and the name of the working directory as the project."""
    project = PurePath(directory).name[:METADATA_VALUE_CHARS]
    return {"agent": agent, **({"project": project} if project else {})}


def derive_turn_id(session_id: str, source_id: str) -> str:
    """Derive a short, stable message id from a session id and an id that is unique within the session."""
    return derive_message_id("t", session_id, source_id)


class _TranscriptMessage(NamedTuple):
    """A text message in a line of a transcript.

    Attributes:
        source_id: the id that the coding agent assigned.
        name: the name of the tool, if the message is tool output.
    """

    role: str
    text: str
    source_id: str
    name: str = ""


class _TranscriptImporter(Importer):
    """Base class of importers of transcripts, which tracks the session, the working directory and the tool calls."""

    def __init__(self, defaults: ImportDefaults) -> None:
        super().__init__(defaults)
        self._session = self._directory = ""
        self._tool_names: dict[object, str] = {}

    def iterate_messages(self, record: Record) -> Iterator[ParseResult]:
        """Yield the messages in a line of a transcript."""
        texts = [turn for turn in self._parse_texts(record.value) if turn.text.strip() and OWN_TOOLS not in turn.name]
        yield from (parse_message(record, partial(self._build_message, turn)) for turn in texts)
        if not texts:
            yield SkippedRecord(record.location)

    def _parse_texts(self, line: Any) -> Iterator[_TranscriptMessage]:  # noqa: ANN401 - any JSON value
        raise NotImplementedError

    def _parse_time(self, fields: JsonFields) -> datetime | None:
        return fields.get_time("timestamp", required=True)

    def _build_message(self, turn: _TranscriptMessage, fields: JsonFields) -> ParsedMessage:
        ts = self._parse_time(fields)
        return ParsedMessage(
            user_id=self.user,
            ts=ts,
            role=turn.role,
            content=prepare_content(turn.text, turn.role),
            message_id=derive_turn_id(
                self._session, turn.source_id or derive_message_id("i", str(ts), turn.role, turn.text)
            ),
            name=turn.name,
            conversation_id=self._session,
            metadata=build_turn_metadata(self.name, self._directory),
        )

    def _record_tool_call(self, call_id: object, name: object) -> None:
        if isinstance(call_id, str) and isinstance(name, str):
            self._tool_names[call_id] = name

    def _build_tool_result(self, call_id: object, content: object, source_id: str) -> _TranscriptMessage:
        name = self._tool_names.get(call_id, "") if isinstance(call_id, str) else ""
        return _TranscriptMessage("tool", read_content(content)[0], source_id, name)


class ClaudeCodeImporter(_TranscriptImporter):
    """Importer of Claude Code transcripts, `{type, uuid, timestamp, sessionId, cwd, message: {role, content}, …}`.

    Notes that Claude Code itself added, summaries, and messages between the agent and its sub-agents are skipped.
    """

    name = "claude-code"
    title = "Claude Code transcript"

    @staticmethod
    def matches(value: object) -> bool:
        """Return whether a value has a type and a session, leaf or snapshot id."""
        return isinstance(value, dict) and "type" in value and bool({"sessionId", "leafUuid", "snapshot"} & set(value))

    def _parse_texts(self, line: Any) -> Iterator[_TranscriptMessage]:  # noqa: ANN401 - any JSON value
        if (
            not isinstance(line, dict)
            or line.get("type") not in ("user", "assistant")
            or any(map(line.get, _SKIPPED_FLAGS))
        ):
            return
        fields, parts = JsonFields(line), _extract_content_parts(line)
        self._session, self._directory, source_id = (
            fields.get_text("sessionId"),
            fields.get_text("cwd"),
            fields.get_text("uuid"),
        )
        yield _TranscriptMessage(line["type"], _join_text_parts(parts), source_id)
        for number, part in enumerate(parts):
            self._record_tool_call(part.get("id"), part.get("name"))
            if part.get("type") == "tool_result":
                yield self._build_tool_result(part.get("tool_use_id"), part.get("content"), f"{source_id}:{number}")


class CodexImporter(_TranscriptImporter):
    """Importer of Codex transcripts, `{timestamp, type, payload}`.

    The first line has the session id and working directory.
    """

    name = "codex"
    title = "Codex transcript"

    @staticmethod
    def matches(value: object) -> bool:
        """Return whether a value has a timestamp, a type and a payload."""
        return (
            isinstance(value, dict) and {"timestamp", "type"} <= set(value) and isinstance(value.get("payload"), dict)
        )

    def _parse_texts(self, line: Any) -> Iterator[_TranscriptMessage]:  # noqa: ANN401 - any JSON value
        payload = line.get("payload") if isinstance(line, dict) else None
        if not isinstance(payload, dict):
            return
        fields, kind = JsonFields(payload), (line.get("type"), payload.get("type"))
        self._record_tool_call(payload.get("call_id"), payload.get("name"))
        if kind[0] == "session_meta" and not self._session:
            self._session, self._directory = fields.get_text("id"), fields.get_text("cwd")
        elif kind == ("response_item", "message") and payload.get("role") in ("user", "assistant"):
            content = payload.get("content")
            texts = [read_content(part)[0] for part in (content if isinstance(content, list) else [content])]
            kept_texts = [text for text in texts if payload["role"] != "user" or not _INSERTED_BY_CODEX.match(text)]
            yield _TranscriptMessage(payload["role"], "\n".join(filter(None, kept_texts)), fields.get_text("id"))
        elif kind in (("response_item", "function_call_output"), ("response_item", "custom_tool_call_output")):
            yield self._build_tool_result(payload.get("call_id"), payload.get("output"), fields.get_text("id"))


class CursorImporter(_TranscriptImporter):
    """Importer of Cursor transcripts, `{role, message: {content}}`, which have neither times nor ids.

    The messages get the times `start`, `start + step`, `start + 2 * step`, and so on. The session id is the file name.
    """

    name = "cursor"
    title = "Cursor transcript"

    def __init__(self, defaults: ImportDefaults) -> None:
        super().__init__(defaults)
        self._session = defaults.file
        self._number = 0

    @staticmethod
    def matches(value: object) -> bool:
        """Return whether a value has a role and a message."""
        return isinstance(value, dict) and "role" in value and isinstance(value.get("message"), dict)

    def _parse_texts(self, line: Any) -> Iterator[_TranscriptMessage]:  # noqa: ANN401 - any JSON value
        if not isinstance(line, dict) or line.get("role") not in ("user", "assistant"):
            return
        text = _join_text_parts(_extract_content_parts(line))
        last_end = text.rfind(_END_OF_QUERY) + len(_END_OF_QUERY)
        queries = _USER_QUERY.findall(text, 0, last_end)  # without this limit, unclosed tags would take quadratic time
        self._number += 1
        yield _TranscriptMessage(line["role"], "\n".join(queries) if queries else text, str(self._number))

    def _parse_time(self, fields: JsonFields) -> datetime | None:
        if self.defaults.start is None:
            fields.reasons.append(f"ts: {_NO_TIME}")
            return None
        return self.defaults.start + (self._number - 1) * self.defaults.step


def _join_text_parts(parts: Sequence[Mapping[str, Any]]) -> str:
    return read_content([part for part in parts if part.get("type") == "text"])[0]


def _extract_content_parts(line: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the content parts of the message in a line. A plain string becomes one text part."""
    message = line.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
