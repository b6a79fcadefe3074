"""Takes the events of hooks: answers at once, and stores what they tell of afterwards, one after the other."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final

from nomemory.agents.capture import Capture, Event, parsed_event
from nomemory.agents.home import Home
from nomemory.client.aio import AsyncClient
from nomemory.client.errors import NoMemoryError
from nomemory.client.messages import role_name
from nomemory.client.prompt_block import Block, RecalledMessage
from nomemory.client.sync import Client
from nomemory.importing.transcripts import about
from nomemory.server.runtime.processes.supervisor import Supervisor
from nomemory.server.runtime.structured_logs import get_logger

_ARRIVAL_S: Final = 2.0
_SEARCH_S: Final = 1.5
"""How long a prompt waits for what bears on it."""
_LANDING_S: Final = 0.5
"""Agents write the last line of a turn about when they tell of its end."""
_HALF_WRITTEN_S: Final = 60.0
"""How old a file is, at least, of a hook that was killed while it wrote."""
_QUESTION_CHARS: Final = 32_000
_LOOKED_AT: Final = 20
LEAST_SUFFICIENCY: Final = 0.5
"""Less likely than not to bear on the prompt, messages are not worth their place in it."""
_BLOCK_TOKENS: Final = 1_200
_PROMPT: Final = "UserPromptSubmit"

_log = get_logger("agents")


class HookServer:
    """Serves at the socket for hooks of a home, while it is open.

    Args:
        home: of the server that it is a part of.

    Attributes:
        last_used: when an event came last, on the monotonic clock.
    """

    def __init__(self, home: Home) -> None:
        self._home = home
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self.last_used = time.monotonic()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Serve, from the events on that came while no server was there, until the context is left."""
        async with AsyncClient(self._home.target, timeout=_SEARCH_S) as self._client:
            storing = Supervisor().start_task("agents", self._store_all)
            async with await asyncio.start_unix_server(self._serve, self._home.hooks):
                self._take_waiting()
                yield
            self._home.hooks.unlink(missing_ok=True)
            storing.cancel()

    def _take_waiting(self) -> None:
        """Take the events that were left in files, in their order."""
        for file in sorted(self._home.waiting.iterdir()):
            written_s = file.stat().st_mtime
            if file.suffix == ".new" and time.time() - written_s < _HALF_WRITTEN_S:
                continue
            event = parsed_event(file.read_bytes(), datetime.fromtimestamp(written_s, UTC))
            if event and not file.suffix:
                self._events.put_nowait(event)
            file.unlink()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_ARRIVAL_S):
                raw = await reader.read()
            event = parsed_event(raw, datetime.now(UTC)) if raw else None
            if event is not None:
                self.last_used = time.monotonic()
                writer.write((await self._answer(event)).encode())
                self._events.put_nowait(event)
            await writer.drain()
        except (OSError, TimeoutError) as error:
            _log.warning("a hook went away", kind=type(error).__name__)
        finally:
            writer.close()

    async def _answer(self, event: Event) -> str:
        """Return what the hook is to print: for a prompt, what bears on it; empty: nothing."""
        question = event.fields.text("prompt")[:_QUESTION_CHARS]
        if event.name != _PROMPT or not question.strip():
            return ""
        try:
            block = await self._bearing_on(question, event)
        except (NoMemoryError, UnicodeEncodeError) as error:
            _log.warning("nothing could be looked up for a prompt", kind=type(error).__name__)
            return ""
        said = {"hookSpecificOutput": {"hookEventName": _PROMPT, "additionalContext": block}}
        return json.dumps(said) if block else ""

    async def _bearing_on(self, question: str, event: Event) -> str:
        """Return what was said in other sessions of the same project, as a block for the prompt."""
        project = about(event.agent, event.directory).get("project")
        found = await self._client.hybrid_search(
            event.user, question, top_k=_LOOKED_AT, metadata={"project": project} if project else None
        )
        messages = [item.message for item in found.items if item.message.conversation_id != event.session]
        if not messages or found.sufficiency < LEAST_SUFFICIENCY:
            return ""
        recalled = [
            RecalledMessage(one.message_id, one.ts.ToDatetime(tzinfo=UTC), one.name or role_name(one.role), one.content)
            for one in messages
        ]
        return Block(recalled, question=question, behind=found.index_lagging).text(_BLOCK_TOKENS)

    async def _store_all(self) -> None:
        with Client(self._home.target) as client:
            capture = Capture(self._home, client)
            while True:
                event = await self._events.get()
                for pause_s in (0.0, _LANDING_S):
                    await asyncio.sleep(pause_s)
                    await asyncio.to_thread(_stored, capture, event)


def _stored(capture: Capture, event: Event) -> None:
    try:
        capture.take(event)
    except NoMemoryError as error:
        _log.warning("what an agent said was not stored", agent=event.agent, code=error.code.name)
    except OSError as error:
        _log.warning("a transcript cannot be read", agent=event.agent, error=error.strerror)
