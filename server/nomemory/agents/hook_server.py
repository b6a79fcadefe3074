"""Server for hook events, which responds immediately and stores messages in the background."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

import grpc

from nomemory.agents.local_data_dir import LocalDataDir
from nomemory.agents.project_memory import PROMPT_EVENT, ProjectMemory
from nomemory.agents.transcript_sync import HookEvent, TranscriptSync, parse_event
from nomemory.client.aio import AsyncClient
from nomemory.client.errors import NoMemoryError
from nomemory.client.sync import Client
from nomemory.server.runtime.processes.supervisor import Supervisor
from nomemory.server.runtime.structured_logs import get_logger

_RECEIVE_TIMEOUT_S: Final = 2.0
_SEARCH_TIMEOUT_S: Final = 1.5
"""Timeout of a search for the agent."""
_SECOND_READ_DELAY_S: Final = 0.5
"""Delay before a second read, because agents may write the last line after the event."""
_INCOMPLETE_FILE_MAX_AGE_S: Final = 60.0
"""Age after which an incomplete event file is deleted."""
_CURSOR_SESSION_START: Final = "sessionStart"
_SESSION_STARTS: Final = ("SessionStart", _CURSOR_SESSION_START)

_log = get_logger("agents")


class _QueuedEvent(NamedTuple):
    """An event to store. `file` contains the event until it is stored; None for an event from the socket."""

    event: HookEvent
    file: Path | None = None


class HookServer:
    """Receives hook events on a Unix socket.

    Attributes:
        last_used: the monotonic time of the last event.
    """

    def __init__(self, home: LocalDataDir) -> None:
        self._home = home
        self._events: asyncio.Queue[_QueuedEvent] = asyncio.Queue()
        self._sessions_without_rules: set[str] = set()
        self.last_used = time.monotonic()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Process pending events and serve until the context exits."""
        async with AsyncClient(self._home.target, timeout=_SEARCH_TIMEOUT_S) as client:
            self._memory = ProjectMemory(client)
            storing = Supervisor().start_task("agents", self._store_queued_events)
            async with await asyncio.start_unix_server(self._handle_connection, self._home.hooks):
                self._read_queued_events()
                yield
            self._home.hooks.unlink(missing_ok=True)
            storing.cancel()

    def _read_queued_events(self) -> None:
        """Queue the events that were written to files, in order.

        If a queued event started a session, the session gets the project's rules with its next prompt.
        """
        for file in sorted(self._home.queued_events.iterdir()):
            try:
                self._read_queued_event(file)
            except OSError as error:  # a hook may rename its file at the same time
                _log.warning("cannot read a queued event", kind=type(error).__name__)

    def _read_queued_event(self, file: Path) -> None:
        written_s = file.stat().st_mtime
        if file.suffix == ".new" and time.time() - written_s < _INCOMPLETE_FILE_MAX_AGE_S:
            return
        event = parse_event(file.read_bytes(), datetime.fromtimestamp(written_s, UTC))
        if event and not file.suffix:
            self._events.put_nowait(_QueuedEvent(event, file))
            if event.name in _SESSION_STARTS:
                self._sessions_without_rules.add(event.session)
        else:
            file.unlink()

    async def _handle_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_RECEIVE_TIMEOUT_S):
                raw = await reader.read()
            event = parse_event(raw, datetime.now(UTC)) if raw else None
            if event is not None:
                self.last_used = time.monotonic()
                writer.write((await self._answer_event(event)).encode())
                self._events.put_nowait(_QueuedEvent(event))
            await writer.drain()
        except (OSError, TimeoutError) as error:
            _log.warning("hook connection failed", kind=type(error).__name__)
        finally:
            writer.close()

    async def _answer_event(self, event: HookEvent) -> str:
        """Return the hook output: rules for a new session, related messages for a prompt, empty for other events."""
        try:
            context = await self._build_context(event)
        except (NoMemoryError, UnicodeEncodeError) as error:
            _log.warning("the memory search failed; nothing is added to the prompt", kind=type(error).__name__)
            return ""
        if not context:
            return ""
        if event.name == _CURSOR_SESSION_START:
            return json.dumps({"additional_context": context})
        return json.dumps({"hookSpecificOutput": {"hookEventName": event.name, "additionalContext": context}})

    async def _build_context(self, event: HookEvent) -> str:
        """Return the messages to add to the agent's context; empty if there are none."""
        if event.name in _SESSION_STARTS:
            return await self._search_rules(event)
        prompt = event.fields.get_text("prompt")
        if event.name != PROMPT_EVENT or not prompt.strip():
            return ""
        searches = [self._memory.search_related_messages(prompt, event)]
        if event.session in self._sessions_without_rules:
            searches.append(self._search_rules(event))
        return "\n".join(filter(None, await asyncio.gather(*searches)))

    async def _search_rules(self, event: HookEvent) -> str:
        """Return the rules of the session's project. If the search fails, it is repeated with the next prompt."""
        self._sessions_without_rules.add(event.session)
        rules = await self._memory.search_rules(event)
        if rules is not None:
            self._sessions_without_rules.discard(event.session)
        return rules or ""

    async def _store_queued_events(self) -> None:
        with Client(self._home.target) as client:
            transcript_sync = TranscriptSync(self._home, client)
            while True:
                queued = await self._events.get()
                is_stored = False
                for pause_s in (0.0, _SECOND_READ_DELAY_S):
                    await asyncio.sleep(pause_s)
                    is_stored = await asyncio.to_thread(_store_event, transcript_sync, queued.event)
                if is_stored and queued.file is not None:
                    queued.file.unlink(missing_ok=True)


def _store_event(transcript_sync: TranscriptSync, event: HookEvent) -> bool:
    """Store the messages of an event; return False if the server was not available."""
    try:
        transcript_sync.store_event(event)
    except NoMemoryError as error:
        _log.warning(
            "the local server did not store the messages of a hook event", agent=event.agent, code=error.code.name
        )
        return error.code is not grpc.StatusCode.UNAVAILABLE
    except OSError as error:
        _log.warning("cannot read transcript", agent=event.agent, error=error.strerror)
    return True
