"""Tests for the rules with the planner configuration of a skill: searches, order and ranking."""

from __future__ import annotations

from datetime import UTC, datetime

import grpc
import pytest
from recall.agent.scripted_query import ScriptedQuery

from chat_messages import new_message
from nomemory.recall.api import recall
from nomemory.recall.model.budget import Budget
from nomemory.recall.model.question import Question, Role
from nomemory.recall.model.result import RecallResult
from nomemory.recall.skills.loader import Skill
from nomemory.recall.skills.steering.steering import read_planner_configuration
from nomemory.text.time_range import TimeRange
from nomemory.v1 import message_pb2

NOW = datetime(2026, 3, 14, 2, tzinfo=UTC)
LIKES = Question("客户喜欢什么？", NOW)
DEFAULTS = "## Defaults\n- time_range_default: P30D\n- role_default: user\n- top_k_default: 10\n"
LEXICON = "## Lexicon\n- 客户: 顾客, 甲方公司, client, key account\n"
TEMPLATE = "## Query Templates\n### 喜欢\n- first: {first}\n- rewrite: {{question}} 爱好 习惯\n- neighbors: true\n"


def steered(*sections: str) -> Skill:
    return Skill("crm", "d", "body", steering=read_planner_configuration({"SKILL.md": "\n".join(sections)}))


def template(first: str) -> Skill:
    return steered(TEMPLATE.format(first=first))


def talk(
    count: int = 8, ts: float = NOW.timestamp() - 1_000, role: message_pb2.Role.ValueType = message_pb2.ROLE_USER
) -> list[message_pb2.ChatMessage]:
    return [new_message("lin", f"m{number}", f"顾客喜欢第 {number} 种", ts + number, role) for number in range(count)]


async def recall_steered(
    skill: Skill, question: Question = LIKES, stub: ScriptedQuery | None = None
) -> tuple[ScriptedQuery, RecallResult]:
    stub = stub or ScriptedQuery(talk())
    return stub, await recall(stub, "lin", question, skill=skill)


def queries(stub: ScriptedQuery, method: str) -> list[str]:
    return [request.query_text for request in stub.requests if type(request).__name__ == f"{method}Request"]


async def test_search_starts_with_the_skill_defaults() -> None:
    stub, result = await recall_steered(steered(DEFAULTS))
    first = stub.requests[0]
    assert first.filter.role == message_pb2.ROLE_USER
    assert first.filter.time_range.since.ToDatetime(tzinfo=UTC) == datetime(2026, 2, 12, 2, tzinfo=UTC)
    pages = {getattr(request, "page_size", 0) or getattr(request, "top_k", 0) for request in stub.requests}
    assert pages - {0} == {10}
    assert result.limits.role is Role.USER
    assert not result.limits.widened


async def test_widening_finds_messages_outside_the_default_scope() -> None:
    long_ago = talk(8, datetime(2025, 3, 1, tzinfo=UTC).timestamp(), role=message_pb2.ROLE_ASSISTANT)
    stub, result = await recall_steered(steered(DEFAULTS), stub=ScriptedQuery(long_ago))
    scopes = [
        (request.filter.role, (NOW - request.filter.time_range.since.ToDatetime(tzinfo=UTC)).days)
        for request in stub.requests
        if type(request).__name__ == "HybridSearchRequest" and request.query_text == LIKES.text
    ]
    assert scopes[:2] == [(message_pb2.ROLE_USER, 30), (message_pb2.ROLE_USER, 180)]
    assert result.limits.widened
    assert len(result.evidence) == 6


async def test_caller_scope_overrides_the_skill_defaults() -> None:
    window = TimeRange(datetime(2025, 1, 1, tzinfo=UTC), datetime(2025, 2, 1, tzinfo=UTC))
    stub, _ = await recall_steered(steered(DEFAULTS), Question(LIKES.text, NOW, window, Role.ASSISTANT))
    assert stub.requests[0].filter.role == message_pb2.ROLE_ASSISTANT
    assert stub.requests[0].filter.time_range.since.ToDatetime(tzinfo=UTC) == window.since


async def test_skill_cannot_exceed_the_budget() -> None:
    skill = steered("## Defaults\n- top_k_default: 200\n", LEXICON)
    stub = ScriptedQuery(talk())
    await recall(stub, "lin", LIKES, skill=skill, budget=Budget(result_items=7))
    assert {request.top_k for request in stub.requests if type(request).__name__ == "HybridSearchRequest"} == {7}
    assert max(getattr(request, "page_size", 0) for request in stub.requests) == 7


async def test_lexicon_synonyms_are_added_to_the_lexical_query() -> None:
    plain, _ = await recall_steered(steered())
    stub, _ = await recall_steered(steered(LEXICON))
    assert queries(stub, "HybridSearch") == queries(plain, "HybridSearch") == [LIKES.text]
    assert queries(stub, "LexicalSearch")[0] == '"顾客" "甲方公司" "key account" 客户喜欢 client'


async def test_alias_with_operator_syntax_is_searched_as_text() -> None:
    hostile = '- 客户: ") OR user_id:, NOT, OR, -喜欢, “) ＯＲ （x”, (a AND b)\n'
    stub, _ = await recall_steered(steered("## Lexicon\n" + hostile))
    query = queries(stub, "LexicalSearch")[0]
    assert '"OR user_id:"' in query
    assert '"a AND b"' in query
    assert query.count('"') % 2 == 0
    assert {request.user_id for request in stub.requests} == {"lin"}
    outside = " ".join(query.split('"')[::2])
    assert not {"AND", "OR", "NOT", "(", ")"} & set(outside.replace("(", " ( ").replace(")", " ) ").split())
    assert "-" not in outside


async def test_10000_aliases_add_few_query_terms() -> None:
    many = "\n".join(f"- 客户{number}: " + ", ".join(f"甲{number}乙{n}" for n in range(100)) for number in range(100))
    stub, result = await recall_steered(steered("## Lexicon\n" + many), Question("客户1喜欢什么？", NOW))
    assert max(map(len, queries(stub, "LexicalSearch"))) < 500
    assert result.evidence


async def test_template_selects_the_first_tool() -> None:
    for first, method in (
        ("lexical_search", "LexicalSearch"),
        ("semantic_search", "HybridSearch"),
        ("messages_list", "ListMessages"),
    ):
        stub, _ = await recall_steered(template(first))
        assert stub.methods()[0] == method


async def test_rewrites_use_semantic_search_unless_the_template_starts_lexically() -> None:
    stub, _ = await recall_steered(template("semantic_search"))
    assert queries(stub, "SemanticSearch") == ["客户喜欢什么？ 爱好 习惯"]
    stub, _ = await recall_steered(template("lexical_search"))
    assert queries(stub, "LexicalSearch")[:1] == ["客户喜欢 爱好 习惯"]


async def test_rewrites_use_lexical_search_without_semantic_search() -> None:
    failing = {"SemanticSearch": grpc.StatusCode.FAILED_PRECONDITION}
    stub, _ = await recall_steered(template("semantic_search"), stub=ScriptedQuery(talk(), failing))
    assert queries(stub, "LexicalSearch").count("客户喜欢 爱好 习惯") == 1


async def test_rewrite_with_operator_syntax_is_searched_as_text() -> None:
    text = '## Query Templates\n### 喜欢\n- first: lexical_search\n- rewrite: {words}") OR NOT (x -y ＡＮＤ z\n'
    stub, _ = await recall_steered(steered(text))
    assert queries(stub, "LexicalSearch")[0] == "客户喜欢 or not x y and z"


async def test_planner_reads_neighbors_of_the_best_hits_in_the_next_round() -> None:
    _, result = await recall_steered(template("semantic_search"))
    around = [step.iteration for step in result.trace if step.tool == "neighbors"]
    assert around[:2] == [2, 2]
    first = [step for step in result.trace if step.tool == "neighbors"][:2]
    assert all(step.thought == "read the neighbors of a top hit" for step in first)
    assert len({step.arguments["message_id"] for step in result.trace if step.tool == "neighbors"}) == 3


@pytest.mark.parametrize("calls", [1, 2, 5, 12])
async def test_skill_calls_stay_within_the_budget(calls: int) -> None:
    stub = ScriptedQuery(talk(2))
    skill = steered(DEFAULTS, LEXICON, TEMPLATE.format(first="messages_list"), *["- rewrite: {words} x\n"] * 9)
    result = await recall(stub, "lin", LIKES, skill=skill, budget=Budget(tool_calls=calls))
    assert len(stub.requests) <= calls + 1  # in addition, the index status is read
    assert result.limits.tool_calls <= calls
