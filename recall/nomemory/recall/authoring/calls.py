"""Check that the tool calls in a skill's text have valid arguments and no user ids."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC
from typing import Final

from markdown_it.token import Token

from nomemory.recall.authoring.rules import Finding, Rule
from nomemory.recall.model.step import JsonValue
from nomemory.recall.reading.answer import LOOKUP_TOOLS
from nomemory.recall.skills.steering.outline import get_first_line_number, parse_block_tokens
from nomemory.recall.tools.argument_parsing import InvalidToolCallError, find_unknown_arguments, parse_arguments
from nomemory.recall.tools.definitions import TOOLS
from nomemory.recall.tools.identity_guard import is_user_key, remove_user_ids

_JSON_LANGUAGES: Final = frozenset({"json", "jsonl"})
_CALL: Final = re.compile(r"`([A-Za-z_][\w.]*)[ \t]?\(([^()`\n]*)\)`")
_PARAMETER: Final = re.compile(r"[A-Za-z_][\w-]*")
_NAMES_A_TOOL: Final = re.compile(r'"tool"\s*:')
_TOOL_NAMES: Final = ", ".join(TOOLS)
_NAMES_A_USER: Final = "names a user; the server determines the user"
_LineFinding = tuple[int, Rule, str]


def check_calls(file: str, text: str) -> Iterator[Finding]:
    """Check all tool calls in a Markdown text: signatures in backticks, and JSON in fenced code blocks."""
    line = 1
    for token in parse_block_tokens(text):
        line = get_first_line_number(token) if token.map else line
        findings = _check_json_block(token) if token.type == "fence" else _check_signatures(token, line)
        yield from (Finding(file, line_number, rule, sentence) for line_number, rule, sentence in findings)


def _check_signatures(token: Token, line: int) -> Iterator[_LineFinding]:
    for call in _CALL.finditer(token.content if token.type == "inline" else ""):
        line_number = line + token.content.count("\n", 0, call.start())
        if call[1] not in TOOLS:
            yield line_number, Rule.TOOL, f"unknown tool; available tools: {_TOOL_NAMES}"
        elif any(map(is_user_key, _PARAMETER.findall(call[2]))):
            yield line_number, Rule.USER_ID, _NAMES_A_USER


def _check_json_block(fence: Token) -> Iterator[_LineFinding]:
    """Check the tool calls in a code block, which contains one JSON value or one value per line."""
    language, text = fence.info.strip().lower(), fence.content.strip()
    if language not in _JSON_LANGUAGES and (language or not text.startswith(("{", "["))):
        return
    first = get_first_line_number(fence) + 1
    try:
        for line_number, value in _parse_json_values(fence.content, first):
            yield from ((line_number, rule, sentence) for rule, sentence in _check_json_value(value))
    except (ValueError, RecursionError):
        if _NAMES_A_TOOL.search(text):
            yield first, Rule.CALL, "invalid JSON: expected one object, or one object per line"


def _parse_json_values(text: str, first: int) -> list[tuple[int, JsonValue]]:
    try:
        return [(first, json.loads(text))]
    except ValueError:
        lines = enumerate(text.splitlines(), first)
        return [(number, json.loads(line)) for number, line in lines if line.strip()]


def _check_json_value(value: JsonValue) -> Iterator[tuple[Rule, str]]:
    cleaned, dropped = remove_user_ids({"": value})
    if dropped:
        yield Rule.USER_ID, _NAMES_A_USER
    value = cleaned[""]
    if isinstance(value, list) and any(map(_is_tool_call, value)):
        yield Rule.CALL, "a call must be one object, not a list"
    elif isinstance(value, dict) and _is_tool_call(value) and value.get("stop") is not True:
        tool, arguments = value.get("tool"), value.get("args")
        if not isinstance(tool, str) or tool not in TOOLS:
            yield Rule.TOOL, f"`tool` must be one of {_TOOL_NAMES}"
        elif not isinstance(arguments, dict):
            yield Rule.CALL, "`args` must be an object"
        else:
            yield from ((Rule.CALL, sentence) for sentence in _check_arguments(tool, arguments))


def _is_tool_call(value: JsonValue) -> bool:
    return isinstance(value, dict) and ("tool" in value or {"stop", "args"} <= value.keys())


def _check_arguments(tool: str, arguments: dict[str, JsonValue]) -> Iterator[str]:
    """Parse the arguments of a call as the search tools do, and report errors."""
    for name in find_unknown_arguments(TOOLS[tool].arguments, arguments):
        yield f"`{tool}` has no argument `{name}`"
    try:
        parse_arguments(LOOKUP_TOOLS[tool], arguments, UTC)
    except InvalidToolCallError as error:
        yield f"{tool}: {error}"
