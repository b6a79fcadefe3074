"""Import Letta agent files (`.af`): the messages of the user and the agent, without the agent's own memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from nomemory.importing.fields import Importer, JsonFields, parse_message, read_content
from nomemory.importing.message_builder import ParsedMessage
from nomemory.importing.record import ParseResult, Record, RejectedRecord

_SEND_TOOL: Final = "send_message"
"""The tool with which older Letta agents send replies."""
_ENVELOPE: Final = "user_message"
_SYSTEM_EVENTS: Final = frozenset({"heartbeat", "login", "system_alert"})
"""Types of messages that older Letta versions sent with the role `user`."""
_STORED_ROLES: Final = frozenset({"user", "assistant"})


class LettaImporter(Importer):
    """Importer of agent files, `{agents: [{id, messages: [{role, content, created_at, tool_calls}, …]}, …]}`.

    Files with only one agent, at the top level, are read as well. Instructions, tool calls and tool results are
    skipped.
    """

    name = "letta"
    title = "Letta agent file"
    required = "agents: is required"

    @staticmethod
    def matches(value: object) -> bool:
        """Return whether a value has agents, or an agent type and messages."""
        return isinstance(value, dict) and (
            isinstance(value.get("agents"), list) or ("agent_type" in value and isinstance(value.get("messages"), list))
        )

    def iterate_messages(self, record: Record) -> Iterator[ParseResult]:
        """Yield the messages of each agent, in order."""
        agents = record.value.get("agents")
        for agent in agents if isinstance(agents, list) else [record.value]:
            if isinstance(agent, dict) and isinstance(agent.get("messages"), list):
                yield from self._parse_agent(record, agent)
            else:
                yield RejectedRecord(record.location, agent, ("messages: is required",))

    def _parse_agent(self, record: Record, agent: Mapping[str, Any]) -> Iterator[ParseResult]:
        fields = JsonFields(agent)
        agent_id = fields.get_text("id") or fields.get_text("name")
        for number, message in enumerate(agent["messages"], 1):
            element = f"{agent_id}, message {number}"
            yield parse_message(record.create_child(element, message), partial(self._build_message, agent_id, element))

    def _build_message(self, agent_id: str, position: str, fields: JsonFields) -> ParsedMessage | None:
        role, text = fields.get_text("role", required=True), _extract_text(fields.value)
        if role not in _STORED_ROLES or not text.strip():
            return None
        return ParsedMessage(
            user_id=self.user,
            ts=fields.get_time("created_at", required=True),
            role=role,
            content=text,
            name=fields.get_text("name"),
            position=position,
            conversation_id=agent_id,
        )


def _extract_text(message: Mapping[str, object]) -> str:
    """Return the text of a message: the argument of its `send_message` call if it has one, otherwise its text parts."""
    content = message.get("content") if message.get("content") is not None else message.get("text")
    calls = message.get("tool_calls")
    sent = [_extract_sent_text(call) for call in calls] if isinstance(calls, list) else []
    # In a message with a `send_message` call, the text is the agent's reasoning.
    return "\n".join(filter(None, sent)) or _unwrap_user_text(read_content(content)[0])


def _extract_sent_text(call: object) -> str:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or function.get("name") != _SEND_TOOL:
        return ""
    arguments = _parse_object(str(function.get("arguments")))
    return str(arguments.get("message") or "")


def _unwrap_user_text(text: str) -> str:
    """Return the user's text without the JSON envelope of older Letta versions; empty if the text is a system event."""
    envelope = _parse_object(text)
    kind = envelope.get("type")
    if kind == _ENVELOPE and isinstance(envelope.get("message"), str):
        return str(envelope["message"])
    return "" if isinstance(kind, str) and kind in _SYSTEM_EVENTS else text


def _parse_object(text: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
