"""Registry of import formats, and format detection."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from nomemory.importing import json_stream, whatsapp
from nomemory.importing.chatgpt import ChatGPTImporter
from nomemory.importing.claude import ClaudeImporter
from nomemory.importing.fields import Importer
from nomemory.importing.files import ImportFile
from nomemory.importing.jsonl import JsonLinesImporter
from nomemory.importing.letta import LettaImporter
from nomemory.importing.mem0 import Mem0Importer
from nomemory.importing.openai import OpenAIImporter
from nomemory.importing.record import ImportDefaults, ImportFormat, Record, RejectedRecord
from nomemory.importing.transcripts import ClaudeCodeImporter, CodexImporter, CursorImporter
from nomemory.importing.whatsapp import WhatsAppImporter
from nomemory.importing.zep import ZepImporter
from nomemory.server.runtime.extension_point import ExtensionPoint

FormatFactory = Callable[[ImportDefaults], ImportFormat]
FORMATS: Final[Mapping[str, type[Importer]]] = MappingProxyType(
    {
        importer.name: importer
        for importer in (
            *(JsonLinesImporter, ChatGPTImporter, ClaudeImporter, ClaudeCodeImporter, CodexImporter, CursorImporter),
            *(LettaImporter, Mem0Importer, ZepImporter, WhatsAppImporter, OpenAIImporter),
        )
    }
)
"""Built-in formats by name, in detection order: more specific formats first."""
IMPORTERS: Final[ExtensionPoint[FormatFactory]] = ExtensionPoint("nomemory.importers", tuple(FORMATS))
"""Formats of plugins. They are used only if selected by name."""


def load_format(name: str) -> FormatFactory:
    """Return the factory of an import format, which is a built-in format or a format of a plugin.

    Raises:
        ExtensionError: no import format has this name.
    """
    return FORMATS[name] if name in FORMATS else IMPORTERS.load(name)


def read_records(source: ImportFile, name: str | None) -> Iterator[Record | RejectedRecord]:
    """Read the records of a file. Each message of a WhatsApp chat, or JSON value of another file, is a record."""
    is_chat = name == WhatsAppImporter.name or (name is None and whatsapp.is_chat_export(source.head))
    return whatsapp.read_messages(source) if is_chat else json_stream.read_json_values(source)


def detect_format(
    items: Iterator[Record | RejectedRecord], defaults: ImportDefaults
) -> tuple[ImportFormat, Iterator[Record | RejectedRecord]]:
    """Detect the format of a file from its first valid record. Return the format and an iterator over all items.

    If no format matches, the result is the JSON Lines format, whose importer reports the missing fields.
    """
    read_items: list[Record | RejectedRecord] = []
    for item in items:
        read_items.append(item)
        if isinstance(item, Record):
            break
    first_record = read_items[-1] if read_items else None
    value = first_record.value if isinstance(first_record, Record) else None
    format_class = next((importer for importer in FORMATS.values() if importer.matches(value)), JsonLinesImporter)
    return format_class(defaults), itertools.chain(read_items, items)
