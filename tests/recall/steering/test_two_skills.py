"""Tests that two skills return different memory views for one question."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from recall.skills.folders import head, written

from chat_messages import new_message
from nomemory.client import Client
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import recall_service_pb2 as r
from running_server import started

if TYPE_CHECKING:
    from running_server import Server

NOW = datetime(2026, 3, 14, tzinfo=UTC)
QUESTION = "我的状态怎么样？"
SALES = """
## Defaults · 默认值
- time_range_default: P90D
- role_default: user

## Lexicon · 词表
- 状态: 合同, 签约, 回款
- 客户: 顾客, 甲方, client
"""
COMPANION = """
## Defaults · 默认值
- time_range_default: all

## Lexicon · 词表
| 词 | 别名 |
|---|---|
| 状态 | 睡眠、低落、mood |

## Query Templates · 查询模板
### profile · 背景
- first: grep
"""
TALK = {
    "sales-1": (5, "甲方的状态：合同在走法务"),
    "sales-2": (20, "这单的状态是已签约，等回款"),
    "sales-3": (40, "回款状态正常，合同归档了"),
    "mood-1": (3, "我这两天状态低落，不想说话"),
    "mood-2": (15, "睡眠不好，状态很差"),
    "mood-3": (200, "My mood and 睡眠 are better, 状态回来了"),
    **{f"other-{n}": (n, f"第 {n} 号机器状态灯亮着") for n in range(1, 13)},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server without semantic search, with messages of one user and both skills."""
    folder = tmp_path_factory.mktemp("two")
    for name, body in (("sales", SALES), ("companion", COMPANION)):
        written(folder / "skills", name, SKILL_md=head(f"name: {name}\ndescription: d", body))
    settings = Settings.from_environment(
        data=folder / "data",
        listen="127.0.0.1:0",
        embedder="none",
        recall_skill_dirs=str(folder / "skills"),
        recall_quote_threshold=0.1,
        drain_timeout_s=0.0,
    )
    with started(settings) as server, Client(server.target) as client:
        messages = [
            new_message("lin", name, content, (NOW - timedelta(days=days)).timestamp())
            for name, (days, content) in TALK.items()
        ]
        client.lexical_search("lin", "x", at_least=client.write(messages).write_token)
        yield server


def ask(server: Server, skill: str, question: str = QUESTION) -> r.RecallResponse:
    with Client(server.target) as client:
        return client.recall(question, user_id="lin", now=NOW, skill=skill)


def evidence_ids(reply: r.RecallResponse) -> set[str]:
    return {item.message.message_id for item in reply.evidence}


def stated(reply: r.RecallResponse) -> set[str]:
    view = reply.memory_view
    return {
        citation.message_id
        for statement in (*view.preferences, *view.profile, *view.constraints)
        for citation in statement.citations
    }


def test_two_skills_give_different_answers_to_one_question(server: Server) -> None:
    sales, companion = ask(server, "sales"), ask(server, "companion")
    assert evidence_ids(sales) >= {"sales-1", "sales-2", "sales-3"}
    assert evidence_ids(companion) >= {"mood-1", "mood-2", "mood-3"}
    assert stated(sales) & {"sales-1", "sales-2", "sales-3"}
    assert stated(companion) & {"mood-1", "mood-2", "mood-3"}
    assert stated(sales) != stated(companion)
    assert not evidence_ids(sales) & {"mood-2", "mood-3"}
    assert not evidence_ids(companion) & {"sales-2", "sales-3"}


def test_lexicon_finds_messages_without_terms_of_the_question(server: Server) -> None:
    assert "sales-1" in evidence_ids(ask(server, "sales", "客户那边有什么消息？"))
    assert not evidence_ids(ask(server, "companion", "客户那边有什么消息？"))


def test_limits_report_the_effects_of_the_skill(server: Server) -> None:
    sales, companion = ask(server, "sales").limits, ask(server, "companion").limits
    assert sales.time_range.since.ToDatetime(tzinfo=UTC) == NOW - timedelta(days=90)
    assert not sales.widened
    assert not companion.time_range.HasField("since")
    assert not [note for note in sales.notes if "SKILL.md" in note.text]
    assert [note for note in companion.notes if note.text.startswith("`SKILL.md` line 16: `first` must be one of")]
