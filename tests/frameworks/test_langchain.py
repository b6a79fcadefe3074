"""Tests for the LangChain tools and retriever with the real package."""

from __future__ import annotations

import json

import pytest
from frameworks.sample_messages import CANARY, PEANUTS

from nomemory.client import Client
from nomemory.frameworks.tools import MemoryTools

pytest.importorskip("langchain_core", reason="scripts/check_frameworks installs it")

from langchain_core.messages import ToolCall
from langchain_core.utils.function_calling import convert_to_openai_tool

from nomemory.frameworks.langchain import MemoryRetriever, langchain_tools


def test_retriever_returns_complete_messages(client: Client, ann: str) -> None:
    (document,) = MemoryRetriever(client=client, user_id=ann, options={"top_k": 1}).invoke("What am I allergic to?")
    assert (document.id, document.page_content) == ("a1", PEANUTS)
    assert document.metadata["said_at"] == "2026-01-05T09:01:00Z"
    assert document.metadata["score"] > 0


async def test_a_retriever_uses_its_configured_user_and_options(client: Client, ann: str) -> None:
    retriever = MemoryRetriever(client=client, user_id=ann, options={"conversation_id": "trip"})
    documents = await retriever.ainvoke("canaries, Kochi", user_id=f"{ann}-other")
    assert {item.metadata["conversation_id"] for item in documents} == {"trip"}
    assert CANARY not in str(documents)


def test_tool_descriptions_match_the_tool_definitions(client: Client, user: str) -> None:
    tools = MemoryTools(client, user, may_write=True)
    described = [convert_to_openai_tool(tool)["function"] for tool in langchain_tools(tools)]
    assert [item["name"] for item in described] == [function["name"] for function in tools.functions]
    assert [item["description"] for item in described] == [function["description"] for function in tools.functions]
    assert described[1]["parameters"]["properties"] == tools.functions[1]["parameters"]["properties"]


async def test_tool_call_of_a_model_is_answered(client: Client, ann: str) -> None:
    tools = {tool.name: tool for tool in langchain_tools(MemoryTools(client, ann))}
    call_arguments = {"query": "allergic", "role": "user"}
    call = ToolCall(name="lexical_search", args=call_arguments, id="1", type="tool_call")
    reply = tools["lexical_search"].invoke(call)
    assert reply.status == "success"
    assert json.loads(reply.content)["messages"][0]["content"] == PEANUTS
    assert PEANUTS in await tools["recall"].ainvoke({"query": "What am I allergic to?"})


def test_rejected_call_is_an_error_for_the_model(client: Client, ann: str) -> None:
    tool = langchain_tools(MemoryTools(client, ann))[2]
    call_arguments = {"query": "allergic", "user_id": f"{ann}-other"}
    reply = tool.invoke(ToolCall(name=tool.name, args=call_arguments, id="1", type="tool_call"))
    assert reply.status == "error"
    assert "unknown" in reply.content
