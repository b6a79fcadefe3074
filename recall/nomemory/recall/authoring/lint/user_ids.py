"""Finds where a skill names a user as an argument, in a signature or as a field. Prose is not judged."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from nomemory.recall.authoring.lint.document import Document, Line, code_spans
from nomemory.recall.authoring.lint.finding import Finding
from nomemory.recall.authoring.lint.rules import USER_ID
from nomemory.recall.tools.definitions import TOOLS
from nomemory.recall.tools.identity_guard import names_a_user

_ID: Final = r"(?<![A-Za-z0-9])(?:x[-_])?(?:user|tenant|account|owner)[-_]?ids?(?![A-Za-z0-9])|(?<![\w-])uid(?![\w-])"
_USER_ID: Final = re.compile(_ID, re.IGNORECASE)
_MARKS: Final = r"[`*\"'“”?\]]*"
_CALL_SHAPE: Final = re.compile(r"(?<![\w.])([A-Za-z_]\w*)([ \t`]{0,2})[(（]([^()（）]*)")
_PARAMETER: Final = re.compile(r"(?:^|[,，、|])[\s`*\"'\[]*([A-Za-z_][\w-]*)")
_ITEM: Final = re.compile(rf"[\s>]*(?:[-*+]|\d+[.)])\s+[`*\"']*(?:{_ID}){_MARKS}\s*(?:$|[:=：(（—–-])", re.IGNORECASE)
_CELL: Final = re.compile(rf"\s*\|[\s`*\"']*(?:{_ID}){_MARKS}\s*\|", re.IGNORECASE)
_IN_CODE: Final = re.compile(rf"(?:{_ID}){_MARKS}\s*(?:[:=](?!=)|\[)|(?<=\w)(?:\.|\[[\"'])(?:{_ID})", re.IGNORECASE)
_NAMES_ONLY: Final = re.compile(r"[\w\s?\[\]]+(?:[,，、|][\w\s?\[\]]+)+")


def user_ids(document: Document) -> Iterator[Finding]:
    """Find the places outside of JSON, which is read as JSON: signatures, items and rows, and names in code."""
    as_json = _json_lines(document)
    for line in document.lines:
        what = "" if line.number in as_json else _named(line)
        if what:
            yield Finding(document.file, line.number, USER_ID, what)


def is_user_id(key: str) -> bool:
    """Return whether a key of JSON that is no call names a user. Arguments of calls are held to more than this."""
    return bool(_USER_ID.fullmatch(key))


def _json_lines(document: Document) -> frozenset[int]:
    spans = (range(one.first, one.first + one.text.count("\n") + 1) for one in document.blocks if one.may_be_json)
    return frozenset(number for span in spans for number in span)


def _named(line: Line) -> str:
    """Say how a line names a user; an empty text if it does not."""
    if any(map(_takes_a_user, _CALL_SHAPE.finditer(line.text))):
        return "a signature takes a user; the server has bound one"
    if _ITEM.match(line.text) or _CELL.match(line.text):
        return "a user stands where an argument or a field stands"
    code = [line.text] if line.in_fence else [span[2] for span in code_spans(line.text)]
    return "code names a user as an argument or a field" if any(map(_has_a_user, code)) else ""


def _takes_a_user(call: re.Match[str]) -> bool:
    """Return whether a call has a user among its parameters: of the tools under any name, else under a telling one."""
    names = [found[1] for found in _PARAMETER.finditer(call[3])]
    if call[1] in TOOLS:
        return any(map(names_a_user, names))
    return not call[2] and any(map(is_user_id, names))


def _has_a_user(code: str) -> bool:
    """Return whether code sets or reads a user, or lists one among other names."""
    return bool(_IN_CODE.search(code) or (_NAMES_ONLY.fullmatch(code.strip()) and _USER_ID.search(code)))
