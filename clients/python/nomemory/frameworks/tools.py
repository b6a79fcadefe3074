"""Tool definitions for the memory of one user, and their implementation."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from nomemory.client import PROMPT_MESSAGES, Client, NoMemoryError, as_prompt, tool_results
from nomemory.frameworks.tool_arguments import Json, ToolCallError, read_arguments
from nomemory.v1 import error_reason_pb2

Result = TypeVar("Result")
_INDEX_LAGGING: Final = error_reason_pb2.ErrorReason.Name(error_reason_pb2.ERROR_REASON_INDEX_LAGGING)


class LastWrite:
    """Keeps the write token of an adapter's last write, so that later reads include the write."""

    def __init__(self) -> None:
        self.token = ""

    def read_after_write(self, read: Callable[[str], Result]) -> Result:
        """Run a read with the write token.

        If the indexes do not reach the token in time, repeat the read without the token.
        """
        try:
            return read(self.token)
        except NoMemoryError as error:
            if error.reason != _INDEX_LAGGING:
                raise
            self.token = ""
            return read("")


DEFINITIONS: Final = Path(__file__).with_name("tools.json")
"""Tool definitions for OpenAI's Chat Completions API, generated from the tools of `nomemory mcp`."""


_REMEMBER: Final = "remember"
_FORGET: Final = "forget"
_NEIGHBORS: Final = "neighbors"
Options = dict[str, Any]


class MemoryTools:
    """Tools with which an LLM reads and writes the memory of one user.

    Tool arguments cannot select another user. Reads include the messages that the same instance has written, unless
    the indexes do not reach them in time.

    Args:
        client: the client for all calls, which the caller must close.
        user_id: the user whose memory the tools read and write.
        may_write: whether to include the tool `remember`, which requires the scope `ingest`.
        may_delete: whether to include the tool `forget`, which deletes messages and requires the scope `ingest`.
    """

    def __init__(self, client: Client, user_id: str, *, may_write: bool = False, may_delete: bool = False) -> None:
        self._client = client
        self._user_id = user_id
        self._last_write = LastWrite()
        offered = {*_READS, *([_REMEMBER] if may_write else []), *([_FORGET] if may_delete else [])}
        tools = json.loads(DEFINITIONS.read_text(encoding="utf-8"))
        self._definitions = {tool["function"]["name"]: tool for tool in tools if tool["function"]["name"] in offered}

    @property
    def definitions(self) -> list[dict[str, Any]]:
        """The tool definitions, as the parameter `tools` of the Chat Completions API expects them."""
        return list(self._definitions.values())

    @property
    def functions(self) -> list[dict[str, Any]]:
        """The function definitions of the tools, each with `name`, `description` and `parameters`.

        For the Responses API, add `"type": "function", "strict": False` to each.
        """
        return [definition["function"] for definition in self._definitions.values()]

    def call(self, name: str, arguments: str | Json) -> str:
        """Execute a tool call, and return its result for the model: JSON, a prompt block, or an error message."""
        try:
            return self.run(name, arguments)
        except ToolCallError as error:
            return str(error)

    def run(self, name: str, arguments: str | Json) -> str:
        """Execute a tool call, and return its result for the model. Arguments are an object or JSON text.

        Raises:
            ToolCallError: the call failed.
        """
        if name not in self._definitions:
            raise ToolCallError(f"not called: unknown tool; available tools: {', '.join(self._definitions)}")
        options = read_arguments(self._definitions[name]["function"]["parameters"], arguments)
        try:
            answer = self._execute_tool(name, options)
        except NoMemoryError as error:
            raise ToolCallError(tool_results.describe_error(error)) from error
        except ValueError as error:
            raise ToolCallError(f"not called: {error}") from error
        return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)

    def _execute_tool(self, name: str, options: Options) -> Json | str:
        if name == _REMEMBER:
            message = {"role": "user", "ts": options.pop("said_at", None), **options}
            written = self._client.add(self._user_id, [message])
            self._last_write.token = written.write_token
            return tool_results.write_to_json(written)
        if name == _FORGET:
            return tool_results.deletion_to_json(self._client.delete(self._user_id, options["message_ids"]))
        read = partial(_READS[name], self._client, self._user_id)
        if name == _NEIGHBORS:
            return read(options)
        return self._last_write.read_after_write(lambda token: read({**options, "at_least": token}))


def _call_recall(client: Client, user_id: str, options: Options) -> str:
    query = options.pop("query")
    response = client.recall(query, **options, user_id=user_id, evidence_messages=PROMPT_MESSAGES)
    block = as_prompt(response, question=query, time_zone=options.get("time_zone", ""))
    return tool_results.format_recall(response, block)


def _call_build_context(client: Client, user_id: str, options: Options) -> str:
    return client.build_context(options.pop("turns", ()), **options, user_id=user_id).text


def _call_search(client: Client, user_id: str, options: Options) -> Json:
    return tool_results.ranking_to_json(client.hybrid_search(user_id, options.pop("query"), **options))


def _call_lexical_search(client: Client, user_id: str, options: Options) -> Json:
    return tool_results.lexical_page_to_json(client.lexical_search(user_id, options.pop("query"), **options))


def _call_semantic_search(client: Client, user_id: str, options: Options) -> Json:
    text, vector = options.pop("query", ""), options.pop("query_embedding", ())
    return tool_results.ranking_to_json(client.semantic_search(user_id, vector or text, **options))


def _call_messages_list(client: Client, user_id: str, options: Options) -> Json:
    return tool_results.page_to_json(client.list_messages(user_id, **options))


def _call_neighbors(client: Client, user_id: str, options: Options) -> Json:
    return tool_results.neighbors_to_json(client.neighbors(user_id, **options))


_Read = Callable[[Client, str, Options], Json | str]
_READS: Final[Mapping[str, _Read]] = {
    "recall": _call_recall,
    "build_context": _call_build_context,
    "search": _call_search,
    "lexical_search": _call_lexical_search,
    "semantic_search": _call_semantic_search,
    "messages_list": _call_messages_list,
    _NEIGHBORS: _call_neighbors,
}
