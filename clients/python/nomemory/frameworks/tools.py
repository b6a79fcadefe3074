"""The memory of one user as tools for a model: their definitions, and the code that carries out a call."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from nomemory.client import PROMPT_MESSAGES, Client, NoMemoryError, as_prompt, tool_results
from nomemory.frameworks.tool_arguments import Json, ToolCallError, read_arguments
from nomemory.v1 import error_reason_pb2

Answer = TypeVar("Answer")
_INDEX_BEHIND: Final = error_reason_pb2.ErrorReason.Name(error_reason_pb2.ERROR_REASON_INDEX_LAGGING)


class LastWrite:
    """What an adapter has stored last, so that its reads find it. `token` is the write's."""

    def __init__(self) -> None:
        self.token = ""

    def found_by(self, read: Callable[[str], Answer]) -> Answer:
        """Return what a read answers that gets the token. If the indexes are that far behind, do not wait again."""
        try:
            return read(self.token)
        except NoMemoryError as error:
            if error.reason != _INDEX_BEHIND:
                raise
            self.token = ""
            return read("")


DEFINITIONS: Final = Path(__file__).with_name("tools.json")
"""The definitions as OpenAI's Chat Completions API takes them. Generated from the tools of `nomemory mcp`."""


_REMEMBER: Final = "remember"
_NEIGHBORS: Final = "neighbors"
Given = dict[str, Any]


class MemoryTools:
    """The tools of one user's memory. No argument that a model gives can name another user.

    What one of them has stored, the others find.

    Args:
        client: makes the calls, from any thread; the caller closes it.
        user_id: for whom all of them are made.
        may_write: whether `remember` is among them. The client's credentials need the scope for it.
    """

    def __init__(self, client: Client, user_id: str, *, may_write: bool = False) -> None:
        self._client = client
        self._user_id = user_id
        self._written = LastWrite()
        offered = {*_READS, _REMEMBER} if may_write else _READS.keys()
        tools = json.loads(DEFINITIONS.read_text(encoding="utf-8"))
        self._definitions = {one["function"]["name"]: one for one in tools if one["function"]["name"] in offered}

    @property
    def definitions(self) -> list[dict[str, Any]]:
        """The functions as the Chat Completions API takes them (`tools=`)."""
        return list(self._definitions.values())

    @property
    def functions(self) -> list[dict[str, Any]]:
        """The functions alone, each with `name`, `description` and `parameters`.

        The Responses API takes them with `"type": "function", "strict": False` in each.
        """
        return [one["function"] for one in self._definitions.values()]

    def call(self, name: str, arguments: str | Json) -> str:
        """Carry a model's call out. Return what to tell it: JSON, the block of a recall, or why it was not done."""
        try:
            return self.run(name, arguments)
        except ToolCallError as refused:
            return str(refused)

    def run(self, name: str, arguments: str | Json) -> str:
        """Carry a model's call out; `arguments` as an object or as its JSON. Return what to tell the model.

        Raises:
            ToolCallError: it was not done; the text says why.
        """
        if name not in self._definitions:
            raise ToolCallError("not called: there is no such tool")
        given = read_arguments(self._definitions[name]["function"]["parameters"], arguments)
        try:
            answer = self._run(name, _flat(given))
        except NoMemoryError as error:
            raise ToolCallError(tool_results.refusal(error)) from error
        except ValueError as error:
            raise ToolCallError(f"not called: {error}") from error
        return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)

    def _run(self, name: str, given: Given) -> Json | str:
        if name == _REMEMBER:
            message = {"role": "user", "ts": given.pop("said_at", None), **given}
            written = self._client.add(self._user_id, [message])
            self._written.token = written.write_token
            return tool_results.remembered(written)
        read = partial(_READS[name], self._client, self._user_id)
        if name == _NEIGHBORS:
            return read(given)
        return self._written.found_by(lambda token: read({**given, "at_least": token}))


def _flat(given: Given) -> Given:
    """Return the options of the client that arguments stand for."""
    narrowed = given.pop("filter", {})
    options = {**given, **narrowed.pop("time_range", {}), **narrowed}
    return {name: value for name, value in options.items() if (name, value) != ("role", "any")}


def _recall(client: Client, user_id: str, given: Given) -> str:
    found = client.recall(**given, user_id=user_id, evidence_messages=PROMPT_MESSAGES)
    return as_prompt(found, question=given["question"], time_zone=given.get("time_zone", ""))


def _build_context(client: Client, user_id: str, given: Given) -> str:
    return client.build_context(given.pop("turns", ()), **given, user_id=user_id).text


def _search(client: Client, user_id: str, given: Given) -> Json:
    return tool_results.ranked(client.hybrid_search(user_id, given.pop("query_text"), **given))


def _lexical_search(client: Client, user_id: str, given: Given) -> Json:
    return tool_results.lexical_page(client.lexical_search(user_id, given.pop("query_text"), **given))


def _semantic_search(client: Client, user_id: str, given: Given) -> Json:
    text, vector = given.pop("query_text", ""), given.pop("query_embedding", ())
    return tool_results.ranked(client.semantic_search(user_id, vector or text, **given))


def _messages_list(client: Client, user_id: str, given: Given) -> Json:
    return tool_results.page(client.list_messages(user_id, **given))


def _neighbors(client: Client, user_id: str, given: Given) -> Json:
    return tool_results.around(client.neighbors(user_id, **given))


_Run = Callable[[Client, str, Given], Json | str]
_READS: Final[Mapping[str, _Run]] = {
    "recall": _recall,
    "build_context": _build_context,
    "search": _search,
    "lexical_search": _lexical_search,
    "semantic_search": _semantic_search,
    "messages_list": _messages_list,
    _NEIGHBORS: _neighbors,
}
