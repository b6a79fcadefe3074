"""Events of a plugin that stores its messages on a server instead of in the local memory."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Final

from nomemory.agents.project_memory import PROMPT_EVENT, ProjectMemory
from nomemory.agents.transcript_sync import HookEvent, log_rejected, parse_event, parse_plugin_messages
from nomemory.client.aio import AsyncClient
from nomemory.client.channel import ClientCredentials
from nomemory.client.sync import Client
from nomemory.importing.upload import MessageUploader

_TIMEOUT_S: Final = 4.0
"""Timeout of a search and of a write. The plugin waits longer."""


def answer_event(raw: bytes, agent: str, user: str, address: str, identity: ClientCredentials) -> str:
    """Store the messages of a JSON event, or return related messages for its prompt.

    Returns:
        The hook output as JSON; empty if nothing is to be added to the prompt.

    Raises:
        NoMemoryError: the call failed.
    """
    event = parse_event(f"{agent}\n{user}\n".encode() + raw, datetime.now(UTC))
    if event is None:
        return ""
    if event.name == PROMPT_EVENT:
        return asyncio.run(_search_related_messages(event, address, identity))
    with Client(address, import_timeout=_TIMEOUT_S, **identity) as client:
        for _ in MessageUploader(client.import_messages, log_rejected).send_messages(parse_plugin_messages(event)):
            pass
    return ""


async def _search_related_messages(event: HookEvent, address: str, identity: ClientCredentials) -> str:
    prompt = event.fields.get_text("prompt").encode(errors="replace").decode()  # a lone surrogate cannot be sent
    if not prompt.strip():
        return ""
    async with AsyncClient(address, timeout=_TIMEOUT_S, **identity) as client:
        context = await ProjectMemory(client).search_related_messages(prompt, event)
    output = {"hookEventName": event.name, "additionalContext": context}
    return json.dumps({"hookSpecificOutput": output}) if context else ""
