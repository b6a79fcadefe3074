"""Reads what a planning model answers: `{"stop": false, "tool": "lexical_search", "args": {…}}`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nomemory.recall.llm.json_answer import BadAnswerError, JsonObject, object_in
from nomemory.recall.model.trace import JsonValue
from nomemory.recall.planning.base import Plan, ToolCall
from nomemory.recall.tools.definitions import LEXICAL_SEARCH, MESSAGES_LIST, SEMANTIC_SEARCH, TOOLS

_THOUGHT_CHARS = 300
_INTEGER_MOST = 10**15 - 1
"""Fifteen digits: what every reader of a double gets back unchanged."""
_SEARCHES = frozenset({LEXICAL_SEARCH, SEMANTIC_SEARCH})


def plan_in(text: str) -> Plan:
    """Return what a model decides: one call, or to stop.

    Filters have to be explicit, so that a model cannot search everything by forgetting to say what it means; whether
    the arguments are any good is for the tools to say.

    Raises:
        BadAnswerError: it is no such object, the tool is unknown, the filters are not there, or an integer is too long.
    """
    answer = object_in(text, {"stop", "tool"})
    thought = _thought(answer)
    if _stops(answer):
        return Plan(stop=True, thought=thought)
    tool, arguments = answer.get("tool"), answer.get("args")
    if not isinstance(tool, str) or tool not in TOOLS:
        raise BadAnswerError(f'"tool" has to be one of {", ".join(TOOLS)}.')
    if not isinstance(arguments, dict):
        raise BadAnswerError('"args" has to be an object with the arguments of the tool.')
    _expect_filters(tool, arguments)
    _expect_short_integers(arguments)
    return Plan((ToolCall(tool, arguments, thought),), thought=thought)


def _thought(answer: JsonObject) -> str:
    """Return the reason that a model may add."""
    thought = answer.get("thought")
    return thought[:_THOUGHT_CHARS] if isinstance(thought, str) else ""


def _stops(answer: JsonObject) -> bool:
    stop = answer.get("stop", False)
    if not isinstance(stop, bool):
        raise BadAnswerError('"stop" has to be true or false.')
    return stop


def _expect_filters(tool: str, arguments: Mapping[str, JsonValue]) -> None:
    if tool == MESSAGES_LIST:
        _expect(arguments, arguments, "messages_list needs role (any is allowed) and at least one of since and until.")
    elif tool in _SEARCHES:
        chosen = _part(arguments, "filter")
        problem = (
            f"{tool} needs filter.role (any is allowed) and filter.time_range with at least one of since and until."
        )
        _expect(chosen, _part(chosen, "time_range"), problem)


def _expect_short_integers(arguments: JsonObject) -> None:
    if any(abs(number) > _INTEGER_MOST for number in _integers(arguments)):
        raise BadAnswerError("An integer may have at most 15 digits.")


def _integers(whole: JsonValue) -> Iterator[int]:
    """Return the integers at every depth; an answer may be nested too deep to recurse into."""
    left = [whole]
    while left:
        value = left.pop()
        if isinstance(value, int):
            yield value
        elif isinstance(value, dict):
            left.extend(value.values())
        elif isinstance(value, list):
            left.extend(value)


def _expect(roles: Mapping[str, JsonValue], times: Mapping[str, JsonValue], problem: str) -> None:
    if not roles.get("role") or not (times.get("since") or times.get("until")):
        raise BadAnswerError(problem)


def _part(whole: Mapping[str, JsonValue], key: str) -> Mapping[str, JsonValue]:
    part = whole.get(key)
    return part if isinstance(part, dict) else {}
