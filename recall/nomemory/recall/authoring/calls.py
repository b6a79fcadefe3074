"""Check the tool calls in a skill: valid arguments and no user ids."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC
from typing import Final

from markdown_it.token import Token

from nomemory.recall.authoring.rules import Finding, Rule
from nomemory.recall.model.step import JsonValue
from nomemory.recall.reading.answer import LOOK_UPS
from nomemory.recall.skills.steering.outline import block_tokens, first_line
from nomemory.recall.tools.argument_parsing import ToolRefusedError, read_arguments, unknown_arguments
from nomemory.recall.tools.definitions import TOOLS
from nomemory.recall.tools.identity_guard import names_a_user, without_identity

_JSON: Final = frozenset({"json", "jsonl"})
_CALL: Final = re.compile(r"`([A-Za-z_][\w.]*)[ \t]?\(([^()`\n]*)\)`")
_PARAMETER: Final = re.compile(r"[A-Za-z_][\w-]*")
_NAMES_A_TOOL: Final = re.compile(r'"tool"\s*:')
_TOOL_NAMES: Final = ", ".join(TOOLS)
_USER_IS_BOUND: Final = "a user is named; the server has bound one"
_Wrong = tuple[int, Rule, str]


def call_findings(file: str, text: str) -> Iterator[Finding]:
    """Check all calls in a text: signatures in backticks, and JSON in fenced blocks."""
    line = 1
    for token in block_tokens(text):
        line = first_line(token) if token.map else line
        wrong = _in_json(token) if token.type == "fence" else _in_signatures(token, line)
        yield from (Finding(file, number, rule, sentence) for number, rule, sentence in wrong)


def _in_signatures(token: Token, line: int) -> Iterator[_Wrong]:
    for call in _CALL.finditer(token.content if token.type == "inline" else ""):
        number = line + token.content.count("\n", 0, call.start())
        if call[1] not in TOOLS:
            yield number, Rule.TOOL, f"this calls what is no tool; there are {_TOOL_NAMES}"
        elif any(map(names_a_user, _PARAMETER.findall(call[2]))):
            yield number, Rule.USER_ID, _USER_IS_BOUND


def _in_json(fence: Token) -> Iterator[_Wrong]:
    """Check a block with one JSON value, or one value per line."""
    language, text = fence.info.strip().lower(), fence.content.strip()
    if language not in _JSON and (language or not text.startswith(("{", "["))):
        return
    first = first_line(fence) + 1
    try:
        for number, value in _values(fence.content, first):
            yield from ((number, rule, sentence) for rule, sentence in _in_value(value))
    except (ValueError, RecursionError):
        if _NAMES_A_TOOL.search(text):
            yield first, Rule.CALL, "this is neither one JSON object nor one on each line"


def _values(text: str, first: int) -> list[tuple[int, JsonValue]]:
    try:
        return [(first, json.loads(text))]
    except ValueError:
        lines = enumerate(text.splitlines(), first)
        return [(number, json.loads(line)) for number, line in lines if line.strip()]


def _in_value(value: JsonValue) -> Iterator[tuple[Rule, str]]:
    kept, named = without_identity({"": value})
    if named:
        yield Rule.USER_ID, _USER_IS_BOUND
    value = kept[""]
    if isinstance(value, list) and any(map(_is_call, value)):
        yield Rule.CALL, "a call is exactly one object, not a list of them"
    elif isinstance(value, dict) and _is_call(value) and value.get("stop") is not True:
        tool, arguments = value.get("tool"), value.get("args")
        if not isinstance(tool, str) or tool not in TOOLS:
            yield Rule.TOOL, f"`tool` is none of {_TOOL_NAMES}"
        elif not isinstance(arguments, dict):
            yield Rule.CALL, "`args` is no object"
        else:
            yield from ((Rule.CALL, sentence) for sentence in _in_arguments(tool, arguments))


def _is_call(value: JsonValue) -> bool:
    return isinstance(value, dict) and ("tool" in value or {"stop", "args"} <= value.keys())


def _in_arguments(tool: str, given: dict[str, JsonValue]) -> Iterator[str]:
    """Check arguments with the parser of the tools."""
    for name in unknown_arguments(TOOLS[tool].arguments, given):
        yield f"`{tool}` has no argument `{name}`"
    try:
        read_arguments(LOOK_UPS[tool], given, UTC)
    except ToolRefusedError as refused:
        yield f"{tool}: {refused}"
