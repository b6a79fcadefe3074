"""Python client of NoMemory."""

from importlib.metadata import version
from typing import Final

from nomemory.client.aio import AsyncClient
from nomemory.client.errors import NoMemoryError, Violation
from nomemory.client.messages import ChatAPIMessage, NewMessage, RoleName, TimeLike, Turn, Writable, chat_message
from nomemory.client.prompt_block import PROMPT_MESSAGES, as_prompt, sort_evidence_by_time
from nomemory.client.search_hits import LexicalHit, lexical_hits
from nomemory.client.sync import Client

__all__ = [
    "PROMPT_MESSAGES",
    "AsyncClient",
    "ChatAPIMessage",
    "Client",
    "LexicalHit",
    "NewMessage",
    "NoMemoryError",
    "RoleName",
    "TimeLike",
    "Turn",
    "Violation",
    "Writable",
    "__version__",
    "as_prompt",
    "chat_message",
    "lexical_hits",
    "sort_evidence_by_time",
]

__version__: Final = version("nomemory-client")
