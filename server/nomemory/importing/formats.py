"""Registry of import formats, and format detection."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from nomemory.importing import json_stream, whatsapp
from nomemory.importing.chatgpt import ChatGPT
from nomemory.importing.claude import Claude
from nomemory.importing.fields import Importer
from nomemory.importing.files import Source
from nomemory.importing.jsonl import MessageLines
from nomemory.importing.letta import Letta
from nomemory.importing.mem0 import Mem0
from nomemory.importing.openai import OpenAI
from nomemory.importing.record import Format, ImportDefaults, Record, Rejected
from nomemory.importing.transcripts import ClaudeCode, Codex, Cursor
from nomemory.importing.whatsapp import WhatsApp
from nomemory.importing.zep import Zep
from nomemory.server.runtime.extension_point import ExtensionPoint

FormatFactory = Callable[[ImportDefaults], Format]
FORMATS: Final[Mapping[str, type[Importer]]] = MappingProxyType(
    {
        importer.name: importer
        for importer in (
            *(MessageLines, ChatGPT, Claude, ClaudeCode, Codex, Cursor),
            *(Letta, Mem0, Zep, WhatsApp, OpenAI),
        )
    }
)
"""Built-in formats by name, in detection order: more specific formats first."""
IMPORTERS: Final[ExtensionPoint[FormatFactory]] = ExtensionPoint("nomemory.importers", tuple(FORMATS))
"""Formats of plugins. They are used only if selected by name."""


def load_format(name: str) -> FormatFactory:
    """Return the factory of an import format, which is built in or comes from a plugin.

    Raises:
        ExtensionError: no import format has this name.
    """
    return FORMATS[name] if name in FORMATS else IMPORTERS.load(name)


def read_records(source: Source, name: str | None) -> Iterator[Record | Rejected]:
    """Read the records of a file. A WhatsApp chat has a record per message, any other file a record per JSON value."""
    is_chat = name == WhatsApp.name or (name is None and whatsapp.is_chat(source.head))
    return whatsapp.read_messages(source) if is_chat else json_stream.read_values(source)


def detect_format(
    items: Iterator[Record | Rejected], defaults: ImportDefaults
) -> tuple[Format, Iterator[Record | Rejected]]:
    """Detect the format of a file from its first valid record. Return the format and an iterator over all items.

    If no format matches, the result is JSON Lines, which reports the missing fields.
    """
    read_items: list[Record | Rejected] = []
    for item in items:
        read_items.append(item)
        if isinstance(item, Record):
            break
    first_record = read_items[-1] if read_items else None
    value = first_record.value if isinstance(first_record, Record) else None
    format_class = next((importer for importer in FORMATS.values() if importer.matches(value)), MessageLines)
    return format_class(defaults), itertools.chain(read_items, items)
