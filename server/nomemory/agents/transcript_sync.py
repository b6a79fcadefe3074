"""Storage of coding agents' messages, from new transcript lines or from hook events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from nomemory.agents.local_data_dir import LocalDataDir
from nomemory.client.sync import Client
from nomemory.importing.fields import Importer, JsonFields
from nomemory.importing.formats import FORMATS
from nomemory.importing.message_builder import ParsedMessage, derive_message_id
from nomemory.importing.record import (
    AcceptedMessage,
    ImportDefaults,
    ParseResult,
    Record,
    RejectedRecord,
    SourceLocation,
)
from nomemory.importing.transcripts import OWN_TOOLS, build_turn_metadata, derive_turn_id, prepare_content
from nomemory.importing.upload import MessageUploader
from nomemory.server.runtime.secure_files import write_atomically
from nomemory.server.runtime.structured_logs import get_logger

_MAX_TRACKED: Final = 1_000
"""Maximum number of transcripts whose read position is kept. Other transcripts are read again from the start."""
CURSOR_EVENTS: Final = {
    "beforeSubmitPrompt": ("user", "prompt", ""),
    "afterAgentResponse": ("assistant", "text", ""),
    "afterShellExecution": ("tool", "output", "shell"),
    "afterMCPExecution": ("tool", "result_json", "MCP"),
}
"""The role, the field with the text, and the default tool name of each Cursor event."""
PLUGIN_AGENTS: Final = ("hermes", "opencode")
"""Agents with a plugin of NoMemory, whose events contain the messages."""

_log = get_logger("agents")


class HookEvent(NamedTuple):
    """A hook event.

    Attributes:
        agent: the name of the agent's transcript format.
        fields: the JSON object that the agent sent.
        name: the event's name, as the agent spells it.
        directory: the working directory of the agent.
    """

    agent: str
    user: str
    at: datetime
    fields: JsonFields
    name: str
    session: str
    directory: str


def parse_event(raw: bytes, at: datetime) -> HookEvent | None:
    """Parse an event: a line with the agent, a line with the user, then JSON; return None if the event is invalid."""
    agent, user, text = (*raw.decode(errors="replace").split("\n", 2), "", "")[:3]
    try:
        fields = JsonFields(dict(json.loads(text)))
    except (ValueError, TypeError, RecursionError):
        _log.warning("invalid hook event", bytes=len(raw))
        return None
    roots = fields.value.get("workspace_roots")
    directory = fields.get_text("cwd") or str(roots[0] if isinstance(roots, list) and roots else "")
    session = fields.get_text("session_id") or fields.get_text("conversation_id")
    return HookEvent(agent, user, at, fields, fields.get_text("hook_event_name"), session, directory)


class TranscriptSync:
    """Stores the messages of hook events.

    Args:
        home: the local data directory, with the read positions of transcripts.
    """

    def __init__(self, home: LocalDataDir, client: Client) -> None:
        self._home = home
        self._client = client
        self._read: dict[str, int] = {}
        with suppress(OSError, ValueError, TypeError):
            self._read = {path: int(end) for path, end in json.loads(home.progress.read_bytes()).items()}

    def store_event(self, event: HookEvent) -> None:
        """Store the messages of a hook event that are not stored yet.

        Raises:
            NoMemoryError: the call failed.
            OSError: the transcript cannot be read.
        """
        path = event.fields.get_text("transcript_path")
        if event.agent == "cursor":
            self._write_messages(_parse_cursor_message(event))
        elif event.agent in PLUGIN_AGENTS:
            self._write_messages(parse_plugin_messages(event))
        elif event.agent in FORMATS and Path(path).is_file():  # a session without messages has no transcript
            self._store_new_lines(event, path)

    def _store_new_lines(self, event: HookEvent, path: str) -> None:
        with Path(path).open("rb") as transcript:
            self._write_messages(self._read_new_messages(event, transcript))
            end = transcript.tell()
        if self._read.pop(path, None) != end:
            write_atomically(self._home.progress, json.dumps({**self._read, path: end}).encode())
        self._read = dict([*self._read.items(), (path, end)][-_MAX_TRACKED:])

    def _read_new_messages(self, event: HookEvent, transcript: BinaryIO) -> Iterator[ParseResult]:
        """Yield the messages of the complete lines that were added to a transcript."""
        reader = FORMATS[event.agent](ImportDefaults(event.user))
        start = self._read.get(transcript.name, 0)
        start = start if start <= transcript.seek(0, 2) else 0
        transcript.seek(0)
        if start:
            list(_parse_line(reader, transcript.readline()))  # the first line identifies the session
        transcript.seek(start)
        for line in iter(transcript.readline, b""):
            if not line.endswith(b"\n"):
                transcript.seek(-len(line), 1)
                return
            yield from _parse_line(reader, line)

    def _write_messages(self, items: Iterator[ParseResult]) -> None:
        upload = MessageUploader(self._client.import_messages, log_rejected)
        for _ in upload.send_messages(items):
            pass


def _parse_line(reader: Importer, line: bytes) -> Iterator[ParseResult]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return
    yield from reader.parse(Record(SourceLocation("line", 0), value, None))


def _parse_cursor_message(event: HookEvent) -> Iterator[ParseResult]:
    """Yield the message of a Cursor event."""
    fields = event.fields
    role, field, tool = CURSOR_EVENTS.get(event.name, ("", "", ""))
    text = fields.get_text(field) if field else ""
    if not text.strip():
        return
    event_id = derive_message_id("i", fields.get_text("generation_id"), event.name, text)
    draft = ParsedMessage(
        user_id=event.user,
        ts=event.at,
        role=role,
        content=prepare_content(text, role),
        message_id=derive_turn_id(event.session, event_id),
        name=fields.get_text("tool_name") or tool,
        conversation_id=event.session,
        metadata=build_turn_metadata(event.agent, event.directory),
    )
    yield draft.build(SourceLocation("item", 1), None, ())


def parse_plugin_messages(event: HookEvent) -> Iterator[ParseResult]:
    """Yield the messages of a plugin event: a list of `{id, time, role, text, name}`, where `name` is the tool name."""
    items = event.fields.value.get("messages")
    for item in items if isinstance(items, list) else []:
        fields = JsonFields(item if isinstance(item, dict) else {})
        role, text, name = fields.get_text("role", required=True), fields.get_text("text"), fields.get_text("name")
        if not text.strip() or OWN_TOOLS in name:
            continue
        draft = ParsedMessage(
            user_id=event.user,
            ts=fields.get_time("time", required=True),
            role=role,
            content=prepare_content(text, role),
            message_id=derive_turn_id(event.session, fields.get_text("id", required=True)),
            name=name,
            conversation_id=event.session,
            metadata=build_turn_metadata(event.agent, event.directory),
        )
        yield draft.build(SourceLocation("item", 1), None, fields.reasons)


def log_rejected(_item: AcceptedMessage | RejectedRecord, reasons: tuple[str, ...]) -> None:
    """Log the invalid fields without their values, which may quote messages."""
    _log.warning(
        "a message in the transcript of an agent is invalid and was not stored",
        fields=[reason.partition(":")[0] for reason in reasons],
    )
