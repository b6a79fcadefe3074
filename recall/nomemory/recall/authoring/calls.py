"""Checks the calls in a skill: those of its tools are as the tools take them, and none names a user."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import Final

from nomemory.recall.authoring.document import (
    ARGUMENTS,
    CALL,
    FILTERS,
    TOOL,
    USER_ID,
    Block,
    Document,
    Finding,
    Line,
    Rule,
    code_spans,
)
from nomemory.recall.model.result import JsonValue
from nomemory.recall.reading.answer import LOOK_UPS
from nomemory.recall.tools.arguments import Schema, SemanticArguments, ToolRefusedError, read_arguments
from nomemory.recall.tools.definitions import TOOLS
from nomemory.recall.tools.identity_guard import names_a_user, without_identity

_ID: Final = r"(?<![A-Za-z0-9])(?:x[-_])?(?:user|tenant|account|owner)[-_]?ids?(?![A-Za-z0-9])|(?<![\w-])uid(?![\w-])"
_USER_ID: Final = re.compile(_ID, re.IGNORECASE)
_MARKS: Final = r"[`*\"'“”?\]]*"
_CALL_SHAPE: Final = re.compile(r"(?<![\w.])([A-Za-z_]\w*)([ \t`]{0,2})[(（]([^()（）]*)")
_PARAMETER: Final = re.compile(r"(?:^|[,，、|])[\s`*\"'\[]*([A-Za-z_][\w-]*)")
_ITEM: Final = re.compile(rf"[\s>]*(?:[-*+]|\d+[.)])\s+[`*\"']*(?:{_ID}){_MARKS}\s*(?:$|[:=：(（—–-])", re.IGNORECASE)
_CELL: Final = re.compile(rf"\s*\|[\s`*\"']*(?:{_ID}){_MARKS}\s*\|", re.IGNORECASE)
_IN_CODE: Final = re.compile(rf"(?:{_ID}){_MARKS}\s*(?:[:=](?!=)|\[)|(?<=\w)(?:\.|\[[\"'])(?:{_ID})", re.IGNORECASE)
_NAMES_ONLY: Final = re.compile(r"[\w\s?\[\]]+(?:[,，、|][\w\s?\[\]]+)+")
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_CALL: Final = re.compile(r"([A-Za-z_][\w.]*)[ \t]?\(.*\)")
_NAMES_A_TOOL: Final = re.compile(r'"tool"\s*:')
_TOOL_NAMES: Final = ", ".join(TOOLS)
_Found = tuple[int, Rule, str]
_DECODER: Final = json.JSONDecoder()


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


@dataclass(frozen=True, slots=True)
class _Value:
    """A JSON value in a block: where it begins, and whether it shares its line with another."""

    value: JsonValue
    line: int
    crowded: bool


@dataclass(frozen=True, slots=True)
class _Wrong:
    """What is no JSON in a block, and where."""

    line: int


def call_findings(document: Document) -> Iterator[Finding]:
    """Check every call example of a text."""
    for line, rule, sentence in (*_in_blocks(document), *_in_prose(document)):
        yield Finding(document.file, line, rule, sentence)


def _in_prose(document: Document) -> Iterator[_Found]:
    """Check the calls between backticks: `foo(…)` names a tool."""
    for line in document.lines:
        for span in code_spans(line.text) if not line.in_fence else ():
            call = _CALL.fullmatch(span[2].strip())
            if call and call[1] not in TOOLS:
                yield line.number, TOOL, f"this calls what is no tool; there are {_TOOL_NAMES}"


def _in_blocks(document: Document) -> Iterator[_Found]:
    for block in document.blocks:
        if block.may_be_json:
            yield from _in_block(block)


def _in_block(block: Block) -> Iterator[_Found]:
    for one in _values(block):
        if isinstance(one, _Wrong):
            if _NAMES_A_TOOL.search(block.text):
                yield one.line, CALL, "this is no JSON, or there is more than JSON in its block"
        elif isinstance(one.value, dict) and _is_call(one.value):
            if one.crowded:
                yield one.line, CALL, "a line has more than one object; each call is one answer of its own"
            yield from ((one.line, rule, sentence) for rule, sentence in _call(one.value))
        elif isinstance(one.value, list) and any(isinstance(item, dict) and _is_call(item) for item in one.value):
            yield one.line, CALL, "a call is exactly one object, not a list of them"
        elif _has_user(one.value):
            yield one.line, USER_ID, "this JSON has a field for a user"


def _values(block: Block) -> Iterator[_Value | _Wrong]:
    """Return the JSON values of a block, one after another, up to the first thing that is none."""
    text, at, last = block.text, _SPACE.match(block.text).end(), -1  # type: ignore[union-attr]  # it matches anything
    while at < len(text):
        line = block.first + text.count("\n", 0, at)
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            yield _Wrong(line)
            return
        yield _Value(value, line, crowded=line == last)
        last = block.first + text.count("\n", 0, end)
        at = _SPACE.match(text, end).end()  # type: ignore[union-attr]  # the same


def _is_call(value: Mapping[str, JsonValue]) -> bool:
    return "tool" in value or {"stop", "args"} <= value.keys()


def _call(value: Mapping[str, JsonValue]) -> Iterator[tuple[Rule, str]]:
    """Check one call as the runtime reads it."""
    tool, arguments = value.get("tool"), value.get("args")
    if isinstance(arguments, dict) and without_identity(arguments)[1]:
        yield USER_ID, "the arguments name a user; the server has bound one"
    if value.get("stop") is True:
        return
    if not isinstance(tool, str) or tool not in TOOLS:
        yield TOOL, f"`tool` is none of {_TOOL_NAMES}"
    elif not isinstance(arguments, dict):
        yield CALL, "`args` is no object"
    else:
        yield from _arguments(tool, without_identity(arguments)[0])


def _arguments(tool: str, given: dict[str, JsonValue]) -> Iterator[tuple[Rule, str]]:
    for name in _unknown(TOOLS[tool].schema(), given):
        yield ARGUMENTS, f"`{tool}` has no argument `{name}`"
    try:
        read = read_arguments(TOOLS[tool].arguments, given, UTC)
    except ToolRefusedError as refused:
        yield ARGUMENTS, str(refused)
        return
    if isinstance(read, SemanticArguments) and bool(read.query_text) == bool(read.query_embedding):
        yield ARGUMENTS, "exactly one of query_text and query_embedding has to be given"
    elif "query_embedding" not in given:
        yield from _filters(tool, given)


def _filters(tool: str, given: dict[str, JsonValue]) -> Iterator[tuple[Rule, str]]:
    """Check that a call says whose messages it wants, and of what time."""
    try:
        read_arguments(LOOK_UPS[tool], given, UTC)
    except ToolRefusedError as refused:
        yield FILTERS, f"{tool}: {refused}"


def _unknown(schema: Schema, given: Mapping[str, JsonValue], path: str = "") -> Iterator[str]:
    """Return the arguments that a tool does not have, at every level."""
    known = schema.get("properties")
    for name, value in given.items():
        inner = known.get(name) if isinstance(known, dict) else None
        if not isinstance(inner, dict):
            yield f"{path}{name}"
        elif isinstance(value, dict) and "properties" in inner:
            yield from _unknown(inner, value, f"{path}{name}.")


def _has_user(value: JsonValue) -> bool:
    """Look for a key that names a user at every depth; a value may be nested too deep to recurse into."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            if any(map(is_user_id, one)):
                return True
            left.extend(one.values())
        elif isinstance(one, list):
            left.extend(one)
    return False
