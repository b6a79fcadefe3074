"""The formats that can be imported, and which of them a file is in."""

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
"""Ours, by name, in the order in which they are tried: the more specific forms first."""
IMPORTERS: Final[ExtensionPoint[FormatFactory]] = ExtensionPoint("nomemory.importers", tuple(FORMATS))
"""Formats of other packages. They are never tried, only asked for by name."""


def load_format(name: str) -> FormatFactory:
    """Return what makes the format of a name: one of ours, or one that another package adds.

    Raises:
        ExtensionError: there is none.
    """
    return FORMATS[name] if name in FORMATS else IMPORTERS.load(name)


def records(source: Source, name: str | None) -> Iterator[Record | Rejected]:
    """Read the records of a file: messages of a chat where it is one or `name` says so, else JSON values."""
    is_chat = name == WhatsApp.name or (name is None and whatsapp.is_chat(source.head))
    return whatsapp.lines(source) if is_chat else json_stream.records(source)


def detect(items: Iterator[Record | Rejected], given: ImportDefaults) -> tuple[Format, Iterator[Record | Rejected]]:
    """Choose the format by the first record that can be read, and give all the items again.

    What is like none of them is taken for JSON Lines, whose refusals say what is missing.
    """
    looked_at: list[Record | Rejected] = []
    for item in items:
        looked_at.append(item)
        if isinstance(item, Record):
            break
    last = looked_at[-1] if looked_at else None
    value = last.value if isinstance(last, Record) else None
    chosen = next((importer for importer in FORMATS.values() if importer.matches(value)), MessageLines)
    return chosen(given), itertools.chain(looked_at, items)
