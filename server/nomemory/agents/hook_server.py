"""The server for hook events: responds immediately, and stores messages in the background."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final

from nomemory.agents.local_data_dir import LocalDataDir
from nomemory.agents.transcript_sync import Event, TranscriptSync, parse_event
from nomemory.client.aio import AsyncClient
from nomemory.client.errors import NoMemoryError
from nomemory.client.messages import role_name
from nomemory.client.prompt_block import Block, RecalledMessage
from nomemory.client.sync import Client
from nomemory.importing.transcripts import turn_metadata
from nomemory.server.runtime.processes.supervisor import Supervisor
from nomemory.server.runtime.structured_logs import get_logger

_RECEIVE_TIMEOUT_S: Final = 2.0
_SEARCH_TIMEOUT_S: Final = 1.5
"""Timeout of the search for a prompt."""
_SECOND_READ_DELAY_S: Final = 0.5
"""Delay before a second read, because agents may write the last line after the event."""
_INCOMPLETE_FILE_MAX_AGE_S: Final = 60.0
"""Age after which an incomplete event file is deleted."""
_MAX_QUESTION_CHARS: Final = 32_000
_TOP_K: Final = 20
MIN_SUFFICIENCY: Final = 0.5
"""Minimum sufficiency for adding messages to a prompt."""
_BLOCK_TOKENS: Final = 1_200
_PROMPT: Final = "UserPromptSubmit"

_log = get_logger("agents")


class HookServer:
    """Receives hook events on a Unix socket.

    Args:
        home: the local data directory.

    Attributes:
        last_used: the monotonic time of the last event.
    """

    def __init__(self, home: LocalDataDir) -> None:
        self._home = home
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self.last_used = time.monotonic()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Process pending events and serve until the context exits."""
        async with AsyncClient(self._home.target, timeout=_SEARCH_TIMEOUT_S) as self._client:
            storing = Supervisor().start_task("agents", self._store_all)
            async with await asyncio.start_unix_server(self._serve, self._home.hooks):
                self._read_queued_events()
                yield
            self._home.hooks.unlink(missing_ok=True)
            storing.cancel()

    def _read_queued_events(self) -> None:
        """Queue the events that were written to files, in order."""
        for file in sorted(self._home.waiting.iterdir()):
            written_s = file.stat().st_mtime
            if file.suffix == ".new" and time.time() - written_s < _INCOMPLETE_FILE_MAX_AGE_S:
                continue
            event = parse_event(file.read_bytes(), datetime.fromtimestamp(written_s, UTC))
            if event and not file.suffix:
                self._events.put_nowait(event)
            file.unlink()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_RECEIVE_TIMEOUT_S):
                raw = await reader.read()
            event = parse_event(raw, datetime.now(UTC)) if raw else None
            if event is not None:
                self.last_used = time.monotonic()
                writer.write((await self._answer(event)).encode())
                self._events.put_nowait(event)
            await writer.drain()
        except (OSError, TimeoutError) as error:
            _log.warning("hook connection failed", kind=type(error).__name__)
        finally:
            writer.close()

    async def _answer(self, event: Event) -> str:
        """Return the hook output: related messages for a prompt, otherwise empty."""
        question = event.fields.text("prompt")[:_MAX_QUESTION_CHARS]
        if event.name != _PROMPT or not question.strip():
            return ""
        try:
            block = await self._related_messages(question, event)
        except (NoMemoryError, UnicodeEncodeError) as error:
            _log.warning("search for a prompt failed", kind=type(error).__name__)
            return ""
        output = {"hookSpecificOutput": {"hookEventName": _PROMPT, "additionalContext": block}}
        return json.dumps(output) if block else ""

    async def _related_messages(self, question: str, event: Event) -> str:
        """Return related messages of other sessions of the project, as a prompt block."""
        project = turn_metadata(event.agent, event.directory).get("project")
        result = await self._client.hybrid_search(
            event.user, question, top_k=_TOP_K, metadata={"project": project} if project else None
        )
        messages = [item.message for item in result.items if item.message.conversation_id != event.session]
        if not messages or result.sufficiency < MIN_SUFFICIENCY:
            return ""
        recalled = [
            RecalledMessage(
                message.message_id,
                message.ts.ToDatetime(tzinfo=UTC),
                message.name or role_name(message.role),
                message.content,
            )
            for message in messages
        ]
        return Block(recalled, question=question, behind=result.index_lagging).text(_BLOCK_TOKENS)

    async def _store_all(self) -> None:
        with Client(self._home.target) as client:
            transcript_sync = TranscriptSync(self._home, client)
            while True:
                event = await self._events.get()
                for pause_s in (0.0, _SECOND_READ_DELAY_S):
                    await asyncio.sleep(pause_s)
                    await asyncio.to_thread(_store, transcript_sync, event)


def _store(transcript_sync: TranscriptSync, event: Event) -> None:
    try:
        transcript_sync.store(event)
    except NoMemoryError as error:
        _log.warning("storing messages of an agent failed", agent=event.agent, code=error.code.name)
    except OSError as error:
        _log.warning("cannot read transcript", agent=event.agent, error=error.strerror)
