"""Letta's agent files (`.af`): what an agent and its user said, not what the agent wrote into its memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from nomemory.importing.draft import NO_USER, Draft, Parsed, Place, Record, Refused, Skipped
from nomemory.importing.fields import Fields, read_content

_SAY: Final = "send_message"
"""The tool by which agents of its older kinds speak."""
_ENVELOPE: Final = "user_message"
_OF_THE_PROGRAM: Final = frozenset({"heartbeat", "login", "system_alert"})
"""Kinds of messages that older versions sent to an agent in the user's place."""
_SAID: Final = frozenset({"user", "assistant"})


class Letta:
    """Reads `{agents: [{id, messages: [{role, content, created_at, tool_calls}, …]}, …]}`, and files of one agent.

    Only what the user and the agent said is taken: not the agent's instructions, its calls of tools or what they gave.

    Args:
        user: the user of every message.
    """

    name = "letta"
    title = "Letta agent file"

    def __init__(self, user: str) -> None:
        self._user = user

    @staticmethod
    def matches(value: object) -> bool:
        """Recognise an agent file by its agents, or by the kind of its one agent."""
        return isinstance(value, dict) and (
            isinstance(value.get("agents"), list) or ("agent_type" in value and isinstance(value.get("messages"), list))
        )

    def parse(self, record: Record) -> Iterator[Parsed]:
        """Return the messages of each agent, in order."""
        if not self._user:
            yield Refused(record.place, record.original, (NO_USER,))
            return
        if not self.matches(record.value) or not isinstance(record.value, dict):
            yield Refused(record.place, record.original, ("agents: is required",))
            return
        agents = record.value.get("agents")
        for agent in agents if isinstance(agents, list) else [record.value]:
            yield from self._agent(record.place, agent)

    def _agent(self, place: Place, agent: object) -> Iterator[Parsed]:
        if not isinstance(agent, dict) or not isinstance(agent.get("messages"), list):
            yield Refused(place, agent, ("messages: is required",))
            return
        fields = Fields(agent)
        agent_id = fields.text("id") or fields.text("name")
        for number, message in enumerate(agent["messages"], 1):
            yield self._message(replace(place, within=f"{agent_id}, message {number}"), message, agent_id)

    def _message(self, place: Place, message: object, agent_id: str) -> Parsed:
        if not isinstance(message, dict):
            return Refused(place, message, ("is not a JSON object",))
        fields = Fields(message)
        role, text = fields.text("role", required=True), _spoken(message)
        if role not in _SAID or not text.strip():
            return Skipped(place)
        return Draft(
            user_id=self._user,
            ts=fields.moment("created_at", required=True),
            role=role,
            content=text,
            name=fields.text("name"),
            position=place.within,
            conversation_id=agent_id,
            reasons=tuple(fields.reasons),
        ).finish(place, message)


def _spoken(message: Mapping[str, object]) -> str:
    """Return what was said in a message: its texts, unwrapped, and what it sent by the tool for speaking."""
    content = message.get("content") if message.get("content") is not None else message.get("text")
    calls = message.get("tool_calls")
    sent = [_sent(call) for call in calls] if isinstance(calls, list) else []
    # Beside such a call the text is what the agent thought.
    return "\n".join(filter(None, sent)) or _unwrapped(read_content(content).text)


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
