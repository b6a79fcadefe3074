"""Tests for the session and tools of the OpenAI Agents SDK with the real package and a scripted chat model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from frameworks.chat_model import chat_model, says, wants
from frameworks.sample_messages import CANARY, PEANUTS
from recall.llm.chat_script import ChatScript

from nomemory.client import Client, NoMemoryError, chat_message
from nomemory.frameworks.tools import MemoryTools
from nomemory.v1.message_pb2 import ChatMessage

pytest.importorskip("agents", reason="scripts/check_frameworks installs it")

from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner, Session, SessionSettings

from nomemory.frameworks.openai_agents import MemorySession, agent_tools

QUIET = RunConfig(tracing_disabled=True)
CALL = {"type": "function_call", "call_id": "1", "name": "recall", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "1", "output": "nothing"}


@pytest.fixture
def script() -> Iterator[ChatScript]:
    with chat_model() as script:
        yield script


def agent(script: ChatScript, tools: MemoryTools | None = None) -> Agent[Any]:
    endpoint = openai.AsyncOpenAI(base_url=script.url, api_key="none", max_retries=0)
    model = OpenAIChatCompletionsModel("m", openai_client=endpoint)
    return Agent(name="assistant", model=model, tools=agent_tools(tools) if tools else [])


def items(*raw_items: Any) -> Any:  # noqa: ANN401 - the SDK's items
    return list(raw_items)


def user_says(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def test_memory_session_implements_the_session_protocol(client: Client, user: str) -> None:
    assert isinstance(MemorySession(client, user, "monday"), Session)
    with pytest.raises(ValueError, match="must not be empty"):
        MemorySession(client, user, "")


async def test_items_are_returned_in_their_order(client: Client, user: str) -> None:
    session = MemorySession(client, user, "monday")
    await session.add_items(items(*(user_says(f"number {n}") for n in range(3))))
    await session.add_items(items(CALL, OUTPUT, user_says("number 3")))
    assert [item["content"] for item in items(*await session.get_items(1))] == ["number 3"]
    assert items(*await session.get_items(3)) == [CALL, OUTPUT, user_says("number 3")]
    assert len(await session.get_items()) == 6
    assert await session.get_items(0) == []
    bounded = MemorySession(client, user, "monday", session_settings=SessionSettings(limit=2))
    assert items(*await bounded.get_items()) == [OUTPUT, user_says("number 3")]


async def test_session_items_are_stored_as_messages_with_their_roles(client: Client, user: str) -> None:
    answered = {"type": "output_text", "text": "Noted.", "annotations": []}
    picture = {"role": "user", "content": [{"type": "input_image", "image_url": "data:,x", "detail": "auto"}]}
    await MemorySession(client, user, "monday").add_items(
        items(
            user_says(PEANUTS),
            {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [answered]},
            {"role": "developer", "content": "Be brief."},
            picture,
        )
    )
    kept = list(client.iter_messages(user, oldest_first=True, conversation_id="monday"))
    assert [(item.role, item.content) for item in kept[:3]] == [(1, PEANUTS), (2, "Noted."), (3, "Be brief.")]
    assert json.loads(kept[3].content) == picture
    back = items(*await MemorySession(client, user, "monday").get_items())
    assert back[1:] == [{"role": "assistant", "content": "Noted."}, {"role": "system", "content": "Be brief."}, picture]


async def test_pop_and_clear_delete_messages(client: Client, ann: str) -> None:
    session = MemorySession(client, ann, "trip")
    assert await session.pop_item() == {"role": "assistant", "content": "Kochi it is."}
    assert client.batch_get(ann, ["c1"]).missing_message_ids == ["c1"]
    await session.clear_session()
    assert await session.get_items() == []
    assert await session.pop_item() is None
    assert client.count_messages(ann) == 3


async def test_non_text_items_can_be_omitted(client: Client, user: str) -> None:
    session = MemorySession(client, user, "monday", keep_others=False)
    await session.add_items(items(user_says("hello"), CALL, OUTPUT))
    assert items(*await session.get_items()) == [user_says("hello")]
    await session.add_items([])


async def test_batch_with_an_oversized_item_is_rejected(client: Client, user: str) -> None:
    session = MemorySession(client, user, "monday")
    with pytest.raises(NoMemoryError, match="INVALID_ARGUMENT"):
        await session.add_items(items(user_says("hello"), {**OUTPUT, "output": "x" * 300_000}))
    assert await session.get_items() == []


async def test_tool_and_marked_messages_get_the_assistant_role(client: Client, user: str) -> None:
    message = chat_message(
        user_id=user, conversation_id="monday", ts="2026-01-05T09:00:00Z", role="tool", content="Hi."
    )
    marked = ChatMessage(content="[" * 9_000, metadata={"item_type": "message"})
    marked.MergeFrom(ChatMessage(user_id=user, conversation_id="monday", ts=message.ts, role=message.role))
    client.write([message, marked])
    roles = [item["role"] for item in items(*await MemorySession(client, user, "monday").get_items())]
    assert roles == ["assistant", "assistant"]


async def test_run_receives_the_items_of_the_previous_run(client: Client, user: str, script: ChatScript) -> None:
    script.answers = [says("Noted."), says("You moved to Basel.")]
    for user_input in ("I moved to Basel.", "Where do I live?"):
        session = MemorySession(client, user, "monday")
        done = await Runner.run(agent(script), user_input, session=session, run_config=QUIET)
    assert done.final_output == "You moved to Basel."
    prompt_messages = [(body["role"], body["content"]) for body in script.bodies[1]["messages"]]
    assert prompt_messages == [("user", "I moved to Basel."), ("assistant", "Noted."), ("user", "Where do I live?")]
    assert client.count_messages(user, conversation_id="monday") == 4


async def test_run_calls_the_memory_tools(client: Client, ann: str, script: ChatScript) -> None:
    call_arguments = {"query": "What am I allergic to?"}
    script.answers = [
        wants("recall", {**call_arguments, "user_id": f"{ann}-other"}),
        wants("recall", call_arguments),
        says("Peanuts."),
    ]
    session = MemorySession(client, ann, "monday")
    done = await Runner.run(agent(script, MemoryTools(client, ann)), "And?", session=session, run_config=QUIET)
    refused, recalled = (body["content"] for body in script.bodies[2]["messages"] if body["role"] == "tool")
    assert "unknown" in refused
    assert PEANUTS in recalled
    assert CANARY not in json.dumps(script.bodies)
    assert done.final_output == "Peanuts."
    kinds = [item.get("type", "message") for item in items(*await session.get_items())]
    assert kinds == ["message", *["function_call", "function_call_output"] * 2, "message"]
