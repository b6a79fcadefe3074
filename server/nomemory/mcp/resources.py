"""MCP resources: conversations and messages."""

from __future__ import annotations

import json
from typing import Final
from urllib.parse import quote, unquote

import mcp_types as types

from nomemory.client import requests, tool_results
from nomemory.mcp.backend import Backend
from nomemory.mcp.credentials import BoundCaller
from nomemory.v1 import message_pb2

CONVERSATION: Final = "nomemory://conversations/"
MESSAGE: Final = "nomemory://messages/"
MIME_TYPE: Final = "application/json"
CONVERSATION_MESSAGES: Final = 200
"""Maximum number of messages in a conversation resource."""


class NoSuchResourceError(Exception):
    """Raised if no resource has the requested URI."""


def build_resource_templates() -> list[types.ResourceTemplate]:
    """Return the resource URI templates."""
    return [
        types.ResourceTemplate(
            uri_template=f"{CONVERSATION}{{conversation_id}}",
            name="conversation",
            description=f"The latest {CONVERSATION_MESSAGES} messages of a conversation, oldest first",
            mime_type=MIME_TYPE,
        ),
        types.ResourceTemplate(
            uri_template=f"{MESSAGE}{{message_id}}",
            name="message",
            description="The full content of a message",
            mime_type=MIME_TYPE,
        ),
    ]


async def list_conversations(backend: Backend, caller: BoundCaller, cursor: str) -> types.ListResourcesResult:
    """Return a page of the user's conversations, most recently active first.

    Raises:
        NoMemoryError: the call failed.
    """
    request = requests.list_conversations(caller.user_id, cursor=cursor)
    reply = await backend.call(backend.query.ListConversations, request, caller.metadata)
    found_resources = [
        types.Resource(
            uri=CONVERSATION + quote(conversation.conversation_id, safe=""),
            name=conversation.conversation_id,
            description=f"{conversation.message_count} messages",
            mime_type=MIME_TYPE,
        )
        for conversation in reply.conversations
        if conversation.conversation_id
    ]
    return types.ListResourcesResult(resources=found_resources, next_cursor=reply.next_cursor or None)


async def read_resource(backend: Backend, caller: BoundCaller, uri: str) -> str:
    """Return a resource as JSON.

    Raises:
        NoSuchResourceError: the resource does not exist.
        NoMemoryError: the call failed.
    """
    if conversation_id := _parse_id(uri, CONVERSATION):
        return await _read_conversation(backend, caller, conversation_id)
    if message_id := _parse_id(uri, MESSAGE):
        return await _read_message(backend, caller, message_id)
    raise NoSuchResourceError(uri)


def _parse_id(uri: str, kind: str) -> str:
    return unquote(uri.removeprefix(kind)) if uri.startswith(kind) else ""


async def _read_conversation(backend: Backend, caller: BoundCaller, conversation_id: str) -> str:
    request = requests.list_messages(caller.user_id, conversation_id=conversation_id, page_size=CONVERSATION_MESSAGES)
    reply = await backend.call(backend.query.ListMessages, request, caller.metadata)
    if not reply.items:
        raise NoSuchResourceError(CONVERSATION)
    return _encode_json([_encode_message(message) for message in reversed(reply.items)])


async def _read_message(backend: Backend, caller: BoundCaller, message_id: str) -> str:
    request = requests.batch_get(caller.user_id, [message_id])
    reply = await backend.call(backend.query.BatchGetMessages, request, caller.metadata)
    if not reply.items:
        raise NoSuchResourceError(MESSAGE)
    return _encode_json(_encode_message(reply.items[0]))


def _encode_message(message: message_pb2.ChatMessage) -> dict[str, object]:
    return {**tool_results.message_to_json(message), "content": message.content, "truncated": False}


def _encode_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
