"""Checks the call examples of a skill: JSON in fenced blocks, and calls between backticks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import Final

from nomemory.recall.authoring.lint.document import Block, Document, code_spans
from nomemory.recall.authoring.lint.finding import Finding, Rule
from nomemory.recall.authoring.lint.rules import ARGUMENTS, CALL, FILTERS, TOOL, USER_ID
from nomemory.recall.authoring.lint.user_ids import is_user_id
from nomemory.recall.llm.json_answer import BadAnswerError
from nomemory.recall.model.trace import JsonValue
from nomemory.recall.planning.llm_answer import plan_in
from nomemory.recall.tools.argument_reader import ToolRefusedError, read_arguments
from nomemory.recall.tools.arguments import SemanticArguments
from nomemory.recall.tools.definitions import TOOLS
from nomemory.recall.tools.identity_guard import without_identity
from nomemory.recall.tools.schema import Schema

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_CALL: Final = re.compile(r"([A-Za-z_][\w.]*)[ \t]?\(.*\)")
_NAMES_A_TOOL: Final = re.compile(r'"tool"\s*:')
_FOUR: Final = ", ".join(TOOLS)


@dataclass(frozen=True, slots=True)
class _Value:
    """A JSON value in a block: its text, where it begins, and whether it shares its line with another."""

    value: JsonValue
    text: str
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


_Found = tuple[int, Rule, str]


def _in_prose(document: Document) -> Iterator[_Found]:
    """Check the calls between backticks: `foo(…)` names a tool."""
    for line in document.lines:
        for span in code_spans(line.text) if not line.in_fence else ():
            call = _CALL.fullmatch(span[2].strip())
            if call and call[1] not in TOOLS:
                yield line.number, TOOL, f"this calls what is no tool; there are {_FOUR}"


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
            yield from ((one.line, rule, sentence) for rule, sentence in _call(one.value, one.text))
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
        yield _Value(value, text[at:end], line, crowded=line == last)
        last = block.first + text.count("\n", 0, end)
        at = _SPACE.match(text, end).end()  # type: ignore[union-attr]  # the same


_DECODER: Final = json.JSONDecoder()


def _is_call(value: Mapping[str, JsonValue]) -> bool:
    return "tool" in value or {"stop", "args"} <= value.keys()


def _call(value: Mapping[str, JsonValue], text: str) -> Iterator[tuple[Rule, str]]:
    """Check one call as the runtime reads it."""
    tool, arguments = value.get("tool"), value.get("args")
    if isinstance(arguments, dict) and without_identity(arguments)[1]:
        yield USER_ID, "the arguments name a user; the server has bound one"
    if value.get("stop") is True:
        return
    if not isinstance(tool, str) or tool not in TOOLS:
        yield TOOL, f"`tool` is none of {_FOUR}"
    elif not isinstance(arguments, dict):
        yield CALL, "`args` is no object"
    else:
        yield from _filters(text)
        yield from _arguments(tool, without_identity(arguments)[0])


def _filters(text: str) -> Iterator[tuple[Rule, str]]:
    try:
        plan_in(text)
    except BadAnswerError as bad:
        yield FILTERS, str(bad).rstrip(".")


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
