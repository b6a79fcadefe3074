"""Memory provider of Hermes Agent, which `nomemory agent install hermes` writes to Hermes's plugin directory.

The provider runs in the Python environment of Hermes, so it imports only the standard library and Hermes. The provider
passes each event to a program of NoMemory: the hook program for the local memory, or `nomemory agent send` if
`NOMEMORY_TARGET` is set.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from agent.memory_provider import MemoryProvider

HOOK_COMMAND: Final[Sequence[str]] = []  # set by the installation
SERVER_COMMAND: Final[Sequence[str]] = []  # set by the installation
DEFAULT_USER: Final = ""  # set by the installation

_LOCAL: Final = "local"
_TIMEOUT_S: Final = 6.0
"""Timeout of one event. Hermes waits at most eight seconds for a prefetch."""
_MAX_PENDING_TURNS: Final = 200
"""Maximum number of turns that wait for an unavailable server. The oldest turns are dropped first."""
_OWN_TOOLS: Final = "nomemory"

_log = logging.getLogger(__name__)


class NoMemoryProvider(MemoryProvider):
    """Stores the turns of Hermes in NoMemory, and adds related messages of earlier sessions to a turn.

    A failure never reaches the agent. Repeated failures are logged once, without content, until an event succeeds
    again.
    """

    def __init__(self) -> None:
        self._session = ""
        self._user = DEFAULT_USER
        self._stores_turns = True
        self._turn_started = datetime.now(UTC)
        self._pending: deque[tuple[str, dict[str, Any]]] = deque(maxlen=_MAX_PENDING_TURNS)
        self._is_flush_queued = threading.Event()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="nomemory")
        self._outcome_lock = threading.Lock()
        self._is_failing = False

    @property
    def name(self) -> str:
        """The name of the provider in Hermes's configuration."""
        return "nomemory"

    def is_available(self) -> bool:
        """Return whether the program of NoMemory is still installed."""
        return bool(_build_event_command()) and os.access(_build_event_command()[0], os.X_OK)

    def get_config_schema(self) -> list[dict[str, Any]]:
        """Return the settings that `hermes memory setup` asks for, all of them optional environment variables."""
        return [
            {
                "key": "target",
                "description": "Address of a NoMemory server, HOST:PORT; `local` for the memory on this machine",
                "default": _LOCAL,
                "env_var": "NOMEMORY_TARGET",
            },
            {
                "key": "api_key",
                "description": "API key of the server; not needed for `local`",
                "secret": True,
                "env_var": "NOMEMORY_API_KEY",
            },
            {
                "key": "user",
                "description": "User id for all chats; empty for one user per person and group",
                "env_var": "NOMEMORY_USER",
            },
        ]

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """Return no tools: Hermes gets the memory tools from the MCP server."""
        return []

    def initialize(self, session_id: str, **kwargs: Any) -> None:  # noqa: ANN401 - Hermes's interface
        """Remember the session and its user, and start the local server if it is not running."""
        self._session = session_id
        self._user = _build_user_id(kwargs)
        self._stores_turns = kwargs.get("agent_context", "primary") == "primary" and kwargs.get("platform") != "cron"
        if _build_event_command() is HOOK_COMMAND:
            self._queue_event({"hook_event_name": "SessionStart", "session_id": session_id})

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        """Return related messages of other sessions as a prompt block; empty if there are none."""
        event = {"hook_event_name": "UserPromptSubmit", "session_id": session_id or self._session, "prompt": query}
        try:
            output = json.loads(self._send_event(self._user, event) or "{}")
            return str(output["hookSpecificOutput"]["additionalContext"])
        except (ValueError, KeyError, TypeError):
            return ""

    def on_turn_start(self, turn_number: int, message: str, **kwargs: Any) -> None:  # noqa: ANN401, ARG002 - Hermes's interface
        """Remember the time of the user's message."""
        self._turn_started = datetime.now(UTC)

    def sync_turn(
        self,
        user_content: str,
        assistant_content: str,
        *,
        session_id: str = "",
        messages: list[dict[str, Any]] | None = None,
    ) -> None:
        """Queue a turn for storage, and return immediately.

        The message ids are derived from the session and the time of the turn, so storing a turn again adds nothing.
        """
        if not self._stores_turns:
            return
        texts = [("user", user_content, ""), *_iterate_agent_texts(assistant_content, messages or [])]
        started = self._turn_started
        self._turn_started = started + timedelta(milliseconds=len(texts))  # if Hermes does not report the next start
        times = [started, *(max(datetime.now(UTC), started) + timedelta(milliseconds=n) for n in range(1, len(texts)))]
        turn = [
            {"id": f"{started.isoformat()}:{number}", "time": at.isoformat(), "role": role, "text": text, "name": name}
            for number, (at, (role, text, name)) in enumerate(zip(times, texts, strict=True))
        ]
        self._queue_event({"hook_event_name": "Stop", "session_id": session_id or self._session, "messages": turn})

    def on_session_end(self, messages: list[dict[str, Any]]) -> None:  # noqa: ARG002 - all turns are queued already
        """Try again to store the pending turns."""
        self._queue_flush()

    def on_session_switch(self, new_session_id: str, **kwargs: Any) -> None:  # noqa: ANN401, ARG002 - Hermes's interface
        """Use another session for the following turns. Turns that are already queued keep their session."""
        self._session = new_session_id

    def shutdown(self) -> None:
        """Wait until the pending turns are stored or an attempt has failed."""
        self._writer.shutdown()

    def _queue_event(self, event: dict[str, Any]) -> None:
        self._pending.append((self._user, event))
        self._queue_flush()

    def _queue_flush(self) -> None:
        if not self._is_flush_queued.is_set():
            self._is_flush_queued.set()
            self._writer.submit(self._send_queued_events)

    def _send_queued_events(self) -> None:
        """Send the pending events in order, until an event fails."""
        self._is_flush_queued.clear()
        while self._pending:
            pending = self._pending[0]
            if self._send_event(*pending) is None:
                return
            if self._pending and self._pending[0] is pending:  # it may have been dropped meanwhile
                self._pending.popleft()

    def _send_event(self, user: str, event: Mapping[str, Any]) -> str | None:
        """Send an event, and return the output of the program; None if it failed."""
        try:
            done = subprocess.run(  # noqa: S603 - the command of the installation
                [*_build_event_command(), user],
                input=json.dumps(event).encode(),
                capture_output=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
            failure = f"exit status {done.returncode}" if done.returncode else ""
        except (OSError, subprocess.TimeoutExpired) as error:
            failure = type(error).__name__
        self._record_outcome(failure)
        return None if failure else done.stdout.decode(errors="replace")

    def _record_outcome(self, failure: str) -> None:
        """Log a failure unless the previous event also failed. `failure` is empty if the event succeeded."""
        with self._outcome_lock:  # a prefetch and a turn can fail at the same time
            if failure and not self._is_failing:
                _log.warning("NoMemory is unavailable (%s). The agent continues without it.", failure)
            self._is_failing = bool(failure)


def _build_event_command() -> Sequence[str]:
    """Return the command that receives an event, without its user argument."""
    target = os.environ.get("NOMEMORY_TARGET", "")
    return SERVER_COMMAND if target and target != _LOCAL else HOOK_COMMAND


def _build_user_id(chat: Mapping[str, Any]) -> str:
    """Return the user of a chat: the configured user, or one user per person or group of a chat platform."""
    if configured := os.environ.get("NOMEMORY_USER"):
        return configured
    is_group = chat.get("chat_id") and chat.get("chat_type", "dm") not in ("dm", "")
    person = chat.get("chat_id") if is_group else chat.get("user_id")
    return f"{chat.get('platform', '')}:{person}" if person else DEFAULT_USER


def _iterate_agent_texts(reply: str, messages: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """Yield role, text and tool name of each message after the last user message, including the reply."""
    tool_names: dict[object, str] = {}
    last_text = ""
    starts = [number for number, message in enumerate(messages) if message.get("role") == "user"]
    for message in messages[starts[-1] + 1 :] if starts else []:
        for call in message.get("tool_calls") or []:
            tool_names[call.get("id")] = str((call.get("function") or {}).get("name", ""))
        role, text = message.get("role"), message.get("content")
        name = tool_names.get(message.get("tool_call_id"), "") if role == "tool" else ""
        if not isinstance(text, str) or not text.strip() or _OWN_TOOLS in name:
            continue
        if role in ("assistant", "tool"):
            yield role, text, name
            last_text = text
    if last_text.strip() != reply.strip():
        yield "assistant", reply, ""


def register(context: Any) -> None:  # noqa: ANN401 - Hermes's plugin context
    """Register the provider with Hermes."""
    context.register_memory_provider(NoMemoryProvider())
