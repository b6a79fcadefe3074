"""The MCP tools: name, arguments, answer, and the code behind each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import mcp_types as types

from nomemory.client import PROMPT_MESSAGES, chat_message, requests, tool_results
from nomemory.client.messages import Turn
from nomemory.client.prompt_block import prompt_block
from nomemory.client.tool_results import Json
from nomemory.mcp import results
from nomemory.mcp.arguments import ContextArguments, RecallArguments, RememberArguments
from nomemory.mcp.credentials import BoundCaller
from nomemory.mcp.memory import Memory
from nomemory.recall.model.question import Role
from nomemory.recall.tools.argument_schema import object_schema
from nomemory.recall.tools.arguments import (
    ArgumentObject,
    HybridArguments,
    LexicalArguments,
    ListArguments,
    NeighborArguments,
    SemanticArguments,
)

Given = dict[str, Any]
"""Options of a request."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool answers: as JSON, and as the text that a model reads; without a text, the JSON is that, too.

    `write_token` is of what it has stored.
    """

    result: Json
    text: str = ""
    write_token: str = ""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool, and how to call it.

    `writes`: it stores something, and needs the scope for it. `waits`: it can wait for what was stored.
    """

    name: str
    title: str
    description: str
    arguments: type[ArgumentObject]
    result: type[results.Result]
    run: Callable[[Memory, BoundCaller, Given], Awaitable[Answer]]
    writes: bool = False
    waits: bool = True

    def described(self) -> types.Tool:
        """Return the tool as a client is shown it."""
        return types.Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=object_schema(self.arguments),
            output_schema=self.result.model_json_schema(),
            annotations=types.ToolAnnotations(
                read_only_hint=not self.writes,
                destructive_hint=False,
                idempotent_hint=not self.writes,
                open_world_hint=False,
            ),
        )


def options(asked: ArgumentObject) -> Given:
    """Return the options of a request that arguments stand for, by the names that the client has for them."""
    given = asked.model_dump(exclude_none=True)
    narrowed = given.pop("filter", {})
    found = {**given, **narrowed.pop("time_range", {}), **narrowed}
    role = found.pop("role", Role.ANY)
    return found if role is Role.ANY else {**found, "role": role.value}


async def _recall(memory: Memory, caller: BoundCaller, given: Given) -> Answer:
    request = requests.recall(**given, evidence_messages=PROMPT_MESSAGES)
    reply = await memory.call(memory.recall.Recall, request, caller.recall_metadata)
    block = prompt_block(reply, given["question"], given["time_zone"])
    return Answer(tool_results.recalled(reply, block.shown()), block.text())


async def _build_context(memory: Memory, caller: BoundCaller, given: Given) -> Answer:
    turns: list[Turn] = [{"role": turn["role"].value, "text": turn["text"]} for turn in given.pop("turns")]
    request = requests.build_context(turns, **given)
    reply = await memory.call(memory.recall.BuildContext, request, caller.recall_metadata)
    return Answer(tool_results.context(reply), reply.text)


async def _search(memory: Memory, caller: BoundCaller, given: Given) -> Answer:
    request = requests.hybrid_search(caller.user_id, given.pop("query_text"), **given)
    return Answer(tool_results.ranked(await memory.call(memory.query.HybridSearch, request, caller.metadata)))


async def _lexical_search(memory: Memory, caller: BoundCaller, given: Given) -> Answer:
    request = requests.lexical_search(caller.user_id, given.pop("query_text"), **given)
    return Answer(tool_results.lexical_page(await memory.call(memory.query.LexicalSearch, request, caller.metadata)))


async def _semantic_search(memory: Memory, caller: BoundCaller, given: Given) -> Answer:
    text, vector = given.pop("query_text"), given.pop("query_embedding")
    request = requests.semantic_search(caller.user_id, vector or text, **given)
    return Answer(tool_results.ranked(await memory.call(memory.query.SemanticSearch, request, caller.metadata)))


async def _messages_list(memory: Memory, caller: BoundCaller, given: Given) -> Answer:
    request = requests.list_messages(caller.user_id, **given)
    return Answer(tool_results.page(await memory.call(memory.query.ListMessages, request, caller.metadata)))


async def _neighbors(memory: Memory, caller: BoundCaller, given: Given) -> Answer:
    request = requests.neighbors(caller.user_id, **given)
    return Answer(tool_results.around(await memory.call(memory.query.GetNeighbors, request, caller.metadata)))


async def _remember(memory: Memory, caller: BoundCaller, given: Given) -> Answer:
    request = requests.write([chat_message(user_id=caller.user_id, ts=given.pop("said_at", None), **given)])
    reply = await memory.call(memory.ingest.WriteMessages, request, caller.metadata)
    return Answer(tool_results.remembered(reply), write_token=reply.write_token)


TOOLS: Final[Mapping[str, Tool]] = MappingProxyType(
    {
        tool.name: tool
        for tool in (
            Tool(
                "recall",
                "Recall",
                "Recall what was said that is nearest to a question about the user: dated messages, word for word, to "
                "judge and to cite. Ask this first.",
                RecallArguments,
                results.Recalled,
                _recall,
            ),
            Tool(
                "build_context",
                "Build a context",
                "Get the messages for your prompt, word for word, within a limit of tokens: the latest of the running "
                "conversation, and those of all others that relate to its latest turns.",
                ContextArguments,
                results.Context,
                _build_context,
            ),
            Tool(
                "search",
                "Search",
                "Find the messages that answer a question, best first, by words, meaning, time and speaker together.",
                HybridArguments,
                results.Messages,
                _search,
            ),
            Tool(
                "lexical_search",
                "Search for words",
                'Find words and exact "phrases", best first, page by page. Use it for names, numbers and literal text.',
                LexicalArguments,
                results.Messages,
                _lexical_search,
            ),
            Tool(
                "semantic_search",
                "Search for meaning",
                "Find what means the same in other words, nearest first.",
                SemanticArguments,
                results.Messages,
                _semantic_search,
            ),
            Tool(
                "messages_list",
                "Read by time",
                "Read messages by time, newest first, page by page.",
                ListArguments,
                results.Messages,
                _messages_list,
            ),
            Tool(
                "neighbors",
                "Read around a message",
                "Read what was said before and after a message, oldest first.",
                NeighborArguments,
                results.Messages,
                _neighbors,
                waits=False,
            ),
            Tool(
                "remember",
                "Remember",
                "Store one message, word for word as it was said. Nothing is summed up or changed later: what corrects "
                "earlier messages names them in `retracts`.",
                RememberArguments,
                results.Remembered,
                _remember,
                writes=True,
                waits=False,
            ),
        )
    }
)
