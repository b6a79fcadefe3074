"""Reads what a composing model answers: `preferences`, `profile` and `constraints`, statements with citations."""

from __future__ import annotations

from collections.abc import Iterator

from nomemory.recall.llm.json_answer import object_in
from nomemory.recall.model.memory_view import DraftCitation, DraftStatement, Section
from nomemory.recall.model.trace import JsonValue

SECTIONS = tuple(section.value for section in Section)
STATEMENTS_MAX = 12
CITATIONS_MAX = 8

_TEXT_CHARS = 500
_ID_CHARS = 256
_QUOTE_CHARS = 2_000


def drafts_in(text: str) -> list[DraftStatement]:
    """Return the drafts, at most 12 a section. An entry is an object, or, from a simple model, a plain string.

    What is no entry, is blank or is too long is left out: nothing here is trusted, and what is left will be checked.

    Raises:
        BadAnswerError: there is no object with any of the three arrays.
    """
    answer = object_in(text, set(SECTIONS))
    return [draft for section in Section for draft in _section(section, answer.get(section.value))]


def _section(section: Section, entries: JsonValue) -> Iterator[DraftStatement]:
    for entry in _some(entries, STATEMENTS_MAX):
        text = _text(entry.get("text") if isinstance(entry, dict) else entry, _TEXT_CHARS)
        if text:
            yield DraftStatement(section, text, tuple(_citations(entry)))


def _citations(entry: JsonValue) -> Iterator[DraftCitation]:
    listed = entry.get("citations") if isinstance(entry, dict) else None
    for citation in _some(listed, CITATIONS_MAX):
        if isinstance(citation, dict):
            message_id, quote = citation.get("message_id"), citation.get("quote") or ""
        else:
            message_id, quote = citation, ""
        if (named := _text(message_id, _ID_CHARS)) and isinstance(quote, str) and len(quote) <= _QUOTE_CHARS:
            yield DraftCitation(named, quote)


def _some(values: JsonValue, most: int) -> list[JsonValue]:
    return values[:most] if isinstance(values, list) else []


def _text(value: JsonValue, most: int) -> str:
    """Return a text without the space around it; nothing if it is none or too long."""
    text = value.strip() if isinstance(value, str) else ""
    return text if len(text) <= most else ""
