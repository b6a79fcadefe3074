"""Letta's agent files (`.af`): what an agent and its user said, not what the agent wrote into its memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from nomemory.importing.message_builder import MessageDraft
from nomemory.importing.fields import Fields, Importer, parse_message, read_content
from nomemory.importing.record import ParseResult, Record, Rejected

_SAY: Final = "send_message"
"""The tool by which agents of its older kinds speak."""
_ENVELOPE: Final = "user_message"
_OF_THE_PROGRAM: Final = frozenset({"heartbeat", "login", "system_alert"})
"""Kinds of messages that older versions sent to an agent in the user's place."""
_SAID: Final = frozenset({"user", "assistant"})


class Letta(Importer):
    """Reads `{agents: [{id, messages: [{role, content, created_at, tool_calls}, …]}, …]}`, and files of one agent.

    Only what the user and the agent said is taken: not the agent's instructions, its calls of tools or what they gave.
    """

    name = "letta"
    title = "Letta agent file"
    required = "agents: is required"

    @staticmethod
    def matches(value: object) -> bool:
        """Recognise an agent file by its agents, or by the kind of its one agent."""
        return isinstance(value, dict) and (
            isinstance(value.get("agents"), list) or ("agent_type" in value and isinstance(value.get("messages"), list))
        )

    def messages(self, record: Record) -> Iterator[ParseResult]:
        """Return the messages of each agent, in order."""
        agents = record.value.get("agents")
        for agent in agents if isinstance(agents, list) else [record.value]:
            if isinstance(agent, dict) and isinstance(agent.get("messages"), list):
                yield from self._agent(record, agent)
            else:
                yield Rejected(record.location, agent, ("messages: is required",))

    def _agent(self, record: Record, agent: Mapping[str, Any]) -> Iterator[ParseResult]:
        fields = Fields(agent)
        agent_id = fields.text("id") or fields.text("name")
        for number, message in enumerate(agent["messages"], 1):
            within = f"{agent_id}, message {number}"
            yield parse_message(record.part(within, message), partial(self._draft, agent_id, within))

    def _draft(self, agent_id: str, position: str, fields: Fields) -> MessageDraft | None:
        role, text = fields.text("role", required=True), _spoken(fields.value)
        if role not in _SAID or not text.strip():
            return None
        return MessageDraft(
            user_id=self.user,
            ts=fields.moment("created_at", required=True),
            role=role,
            content=text,
            name=fields.text("name"),
            position=position,
            conversation_id=agent_id,
        )


def _spoken(message: Mapping[str, object]) -> str:
    """Return what was said in a message: its texts, unwrapped, and what it sent by the tool for speaking."""
    content = message.get("content") if message.get("content") is not None else message.get("text")
    calls = message.get("tool_calls")
    sent = [_sent(call) for call in calls] if isinstance(calls, list) else []
    # Beside such a call the text is what the agent thought.
    return "\n".join(filter(None, sent)) or _unwrapped(read_content(content)[0])


def _sent(call: object) -> str:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or function.get("name") != _SAY:
        return ""
    arguments = _object(str(function.get("arguments")))
    return str(arguments.get("message") or "")


def _unwrapped(text: str) -> str:
    """Take a user's words out of the envelope in which older versions put them; what the program said is nothing."""
    envelope = _object(text)
    kind = envelope.get("type")
    if kind == _ENVELOPE and isinstance(envelope.get("message"), str):
        return str(envelope["message"])
    return "" if kind in _OF_THE_PROGRAM else text


def _object(text: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
