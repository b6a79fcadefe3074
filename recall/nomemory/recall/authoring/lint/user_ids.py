"""Finds where a skill names a user as an argument, in a signature or as a field. Prose that forbids it is none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Final

from nomemory.recall.authoring.lint.document import Document, code_spans
from nomemory.recall.authoring.lint.finding import Finding
from nomemory.recall.authoring.lint.prohibition import forbids
from nomemory.recall.authoring.lint.rules import USER_ID
from nomemory.recall.model.evidence import Retrieved
from nomemory.recall.tools.arguments import SearchFilter
from nomemory.recall.tools.definitions import TOOLS
from nomemory.recall.tools.identity_guard import names_a_user

_ID: Final = r"(?<![A-Za-z0-9])(?:x[-_])?(?:user|tenant|account|owner)[-_]?ids?(?![A-Za-z0-9])|(?<![\w-])uid(?![\w-])"
_USER_ID: Final = re.compile(_ID, re.IGNORECASE)
_NAMES_ONLY: Final = re.compile(r"[\w\s?\[\]]+(?:[,，、|][\w\s?\[\]]+)+")
_MARKS: Final = r"[`*\"'“”?\]]*"

_CALL: Final = re.compile(r"(?<![\w.])([A-Za-z_]\w*)([ \t`]{0,2})[(（]([^()（）]*)")
_PARAMETER: Final = re.compile(r"(?:^|[,，、|])[\s`*\"'\[]*([A-Za-z_][\w-]*)")
_ASSIGNED: Final = re.compile(rf"(?P<id>{_ID}){_MARKS}\s*(?:[:=：](?!=)|\[)", re.IGNORECASE)
_TAKEN_FROM: Final = re.compile(rf"(?<=\w)(?:\.|\[[\"'])(?P<id>{_ID})", re.IGNORECASE)
_ITEM: Final = re.compile(rf"^[\s>]*(?:[-*+]|\d+[.)])\s+[`*\"']*(?P<id>{_ID}){_MARKS}\s*(?:$|[(（—–-])", re.IGNORECASE)
_DECLARED: Final = re.compile(
    rf"(?P<id>{_ID}){_MARKS}\s*[(（:：]\s*(?:必填|必需|必须|选填|可选|字符串|required|optional|str)", re.IGNORECASE
)
_CELL: Final = re.compile(rf"^\s*\|[\s`*\"']*(?P<id>{_ID}){_MARKS}\s*\|", re.IGNORECASE)

_ALSO_ENGLISH: Final = {"since", "until", "before", "after", "name", "filter"}
_FIELDS: Final = sorted(
    {
        *(name for tool in TOOLS.values() for name in tool.arguments.model_fields),
        *SearchFilter.model_fields,
        *(one.name for one in fields(Retrieved)),
    }
    - _ALSO_ENGLISH
)
"""What arguments and evidence are made of, without the words that stand beside a name in any sentence."""
_FIELD: Final = rf"(?<![\w])(?:{'|'.join(_FIELDS)})(?!\w)"
_BETWEEN: Final = rf"{_MARKS}\s*[,，、/|]\s*[`*\"'\[]*"
_LISTED: Final = re.compile(rf"(?:{_ID}){_BETWEEN}{_FIELD}|{_FIELD}{_BETWEEN}(?:{_ID})", re.IGNORECASE)


def user_ids(document: Document, evidence_lines: range) -> Iterator[Finding]:
    """Find the places outside of JSON, which `calls` reads as JSON.

    Args:
        document: the text.
        evidence_lines: where its Evidence Contract stands: no mention is harmless there, unless it forbids.
    """
    as_json = _json_lines(document)
    for line in document.lines:
        what = "" if line.number in as_json else _named(line.text, in_evidence=line.number in evidence_lines)
        if what:
            yield Finding(document.file, line.number, USER_ID, what)


def is_user_id(key: str) -> bool:
    """Return whether a key of JSON that is no call names a user. Arguments of calls are held to more than this."""
    return bool(_USER_ID.fullmatch(key))


def _json_lines(document: Document) -> frozenset[int]:
    spans = (range(one.first, one.first + one.text.count("\n") + 1) for one in document.blocks if one.may_be_json)
    return frozenset(number for span in spans for number in span)


def _named(text: str, *, in_evidence: bool) -> str:
    """Say how a line names a user; an empty text if it does not."""
    shapes: tuple[tuple[Iterator[re.Match[str]], str], ...] = (
        (_calls(text), "a signature takes a user; the server has bound one"),
        (_lists(text), "a list of fields or arguments has a user in it"),
        (_arguments(text), "a user stands where an argument or a field stands"),
        (_USER_ID.finditer(text) if in_evidence else iter(()), "the evidence has no field for a user"),
    )
    return next((what for found, what in shapes if any(_is_meant(one) for one in found)), "")


def _is_meant(found: re.Match[str]) -> bool:
    """Return whether a mention is none that the prose around it forbids."""
    start, end = found.span("id") if "id" in found.re.groupindex and found["id"] else found.span()
    return not forbids(found.string[:start], found.string[end:])


def _calls(text: str) -> Iterator[re.Match[str]]:
    """Find the signatures that name a user: of the tools in any way, of anything else by a telling name."""
    for call in _CALL.finditer(text):
        names = [found[1] for found in _PARAMETER.finditer(call[3])]
        if call[1] in TOOLS:
            if any(names_a_user(name) for name in names):
                yield call
        elif not call[2] and any(_USER_ID.fullmatch(name) for name in names):
            yield call


def _lists(text: str) -> Iterator[re.Match[str]]:
    """Find lists with a user among what are known for fields and arguments, or among names in code."""
    yield from _LISTED.finditer(text)
    for span in code_spans(text):
        if _NAMES_ONLY.fullmatch(span[2]) and _USER_ID.search(span[2]):
            yield span


def _arguments(text: str) -> Iterator[re.Match[str]]:
    for shape in (_ASSIGNED, _TAKEN_FROM, _ITEM, _DECLARED, _CELL):
        yield from shape.finditer(text)
