"""Reads what a composing model answers: statements in three sections, and, if it likes, a verdict and conflicts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from nomemory.recall.llm.json_answer import object_in
from nomemory.recall.model.memory_view import (
    Draft,
    DraftCitation,
    DraftConflict,
    DraftSide,
    DraftStatement,
    Section,
    Verdict,
)
from nomemory.recall.model.trace import JsonValue

SECTIONS: Final = tuple(section.value for section in Section)
VERDICTS: Final = tuple(verdict.value for verdict in (Verdict.SUPPORTED, Verdict.CONFLICTING, Verdict.INSUFFICIENT))
STATEMENTS_MAX: Final = 12
CITATIONS_MAX: Final = 8
CONFLICTS_MAX: Final = 8

_SIDES = ("earlier", "later")
_TEXT_CHARS = 500
_ID_CHARS = 256
_QUOTE_CHARS = 2_000


def draft_in(text: str) -> Draft:
    """Return the draft, at most 12 statements a section. An entry is an object, or, from a simple model, a string.

    What is no entry, is blank or is too long is left out: nothing here is trusted, and what is left will be checked.

    Raises:
        BadAnswerError: there is no object with a verdict or with any of the three arrays.
    """
    answer = object_in(text, {*SECTIONS, "verdict"})
    statements = (draft for section in Section for draft in _section(section, answer.get(section.value)))
    return Draft(tuple(statements), _verdict(answer.get("verdict")), tuple(_conflicts(answer.get("conflicts"))))


def _section(section: Section, entries: JsonValue) -> Iterator[DraftStatement]:
    for entry in _some(entries, STATEMENTS_MAX):
        text = _text(entry.get("text") if isinstance(entry, dict) else entry, _TEXT_CHARS)
        if text:
            yield DraftStatement(section, text, tuple(_citations(entry)))


def _citations(entry: JsonValue) -> Iterator[DraftCitation]:
    listed = entry.get("citations") if isinstance(entry, dict) else None
    for citation in _some(listed, CITATIONS_MAX):
        if found := _citation(citation):
            yield found


def _citation(value: JsonValue) -> DraftCitation | None:
    if isinstance(value, dict):
        message_id, quote = value.get("message_id"), value.get("quote") or ""
    else:
        message_id, quote = value, ""
    named = _text(message_id, _ID_CHARS)
    good = named and isinstance(quote, str) and len(quote) <= _QUOTE_CHARS
    return DraftCitation(named, str(quote)) if good else None


def _verdict(value: JsonValue) -> Verdict | None:
    said = _text(value, _TEXT_CHARS).lower()
    return Verdict(said) if said in VERDICTS else None


def _conflicts(values: JsonValue) -> Iterator[DraftConflict]:
    """Return pairs. Each is an object with `earlier` and `later`, or a list of two."""
    for value in _some(values, CONFLICTS_MAX):
        pair = [value.get(side) for side in _SIDES] if isinstance(value, dict) else _some(value, len(_SIDES))
        sides = [side for side in map(_side, pair) if side]
        if len(sides) == len(_SIDES):
            possible = isinstance(value, dict) and value.get("possible") is True
            yield DraftConflict(sides[0], sides[1], possible)


def _side(value: JsonValue) -> DraftSide | None:
    """Return a side: a statement with its text, a citation, or a string that is either a text or an id."""
    text = _text(value.get("text") if isinstance(value, dict) else value, _TEXT_CHARS)
    listed = next(_citations(value), None)
    citation = listed or _citation(value)
    return DraftSide(text, citation) if text or citation else None


def _some(values: JsonValue, most: int) -> list[JsonValue]:
    return values[:most] if isinstance(values, list) else []


def _text(value: JsonValue, most: int) -> str:
    """Return a text without the space around it; nothing if it is none or too long."""
    text = value.strip() if isinstance(value, str) else ""
    return text if len(text) <= most else ""
