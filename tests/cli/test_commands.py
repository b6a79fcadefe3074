"""Tests for the commands with a real server."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from cli.command_line import Run
from click.testing import Result

from nomemory.client.messages import chat_message
from nomemory.client.sync import Client
from running_server import Server

START = datetime(2024, 5, 1, 8, tzinfo=UTC)
CHAT = [
    ("user", "我从小就不吃辣椒", "dinner"),
    ("assistant", "好的，记住了：不吃辣。", "dinner"),
    ("user", "吃辣的我都不吃", "dinner"),
    ("user", "I moved to Lisbon in March.", "home"),
    ("assistant", "Lisbon is lovely in March!", "home"),
]

Ask = Callable[..., Result]


@pytest.fixture
def ask(run: Run, server: Server, user: str) -> Ask:
    """Run a command for a user whose messages are indexed."""
    with Client(server.target) as client:
        written = client.write(
            chat_message(
                user_id=user,
                message_id=f"m{index}",
                ts=START + timedelta(minutes=index),
                role="user" if role == "user" else "assistant",
                content=content,
                conversation_id=conversation,
                metadata={"app": "phone" if index % 2 else "web", "place": f"{index}={index}"},
            )
            for index, (role, content, conversation) in enumerate(CHAT)
        )
        client.lexical_search(user, "不", at_least=written.write_token)
        client.semantic_search(user, "不", at_least=written.write_token)

    def invoke(*arguments: str, stdin: str = "", colour: bool = False) -> Result:
        more = ("--user", user, "--target", server.target)
        return run(*arguments, *more, stdin=stdin, colour=colour)

    return invoke


def ids(result: Result) -> list[str]:
    assert result.exit_code == 0, result.stderr
    return [json.loads(line)["message_id"] for line in result.stdout.splitlines()]


def test_list_reads_by_time_and_filters(ask: Ask) -> None:
    assert ids(ask("list", "--json")) == ["m4", "m3", "m2", "m1", "m0"]
    assert ids(ask("list", "--json", "--role", "assistant")) == ["m4", "m1"]
    assert ids(ask("list", "--json", "--conversation", "home")) == ["m4", "m3"]
    since, until = "2024-05-01T08:01", "2024-05-01T16:03+08:00"
    assert ids(ask("list", "--json", "--since", since, "--until", until)) == ["m2", "m1"]
    assert ids(ask("list", "--json", "--since", "1d")) == []
    assert ids(ask("list", "--json", "--role", "tool")) == []


def test_every_search_filters_by_metadata(ask: Ask) -> None:
    assert ids(ask("list", "--json", "--metadata", "app=phone")) == ["m3", "m1"]
    assert ids(ask("list", "--json", "--metadata", "app=phone", "--metadata", "place=1=1")) == ["m1"]
    assert ids(ask("list", "--json", "--metadata", "app=")) == []
    assert ids(ask("search", "辣", "--json", "--metadata", "app=phone")) == ["m1"]
    assert set(ids(ask("semantic", "Lisbon", "--json", "--metadata", "app=web"))) == {"m0", "m2", "m4"}
    assert ids(ask("hybrid", "Lisbon", "--json", "--metadata", "place=4=4")) == ["m4"]


def test_invalid_metadata_option_is_a_usage_error(ask: Ask) -> None:
    for wrong in (["app"], ["=phone"], ["app=a", "app=b"]):
        options = [part for entry in wrong for part in ("--metadata", entry)]
        result = ask("list", *options)
        assert (result.exit_code, "--metadata" in result.stderr) == (2, True)
    crowded = [part for n in range(5) for part in ("--metadata", f"k{n}=v")]
    assert "  filter.metadata: must have at most 4 entries" in ask("list", *crowded).stderr


def test_list_returns_the_oldest_first_on_request(ask: Ask) -> None:
    first = ask("list", "--json", "--oldest-first", "--limit", "3")
    assert ids(first) == ["m0", "m1", "m2"]
    cursor = first.stderr.removeprefix("next_cursor: ").strip()
    assert ids(ask("list", "--json", "--oldest-first", "--cursor", cursor)) == ["m3", "m4"]


def test_count_applies_its_filter(ask: Ask) -> None:
    assert json.loads(ask("count", "--json").stdout) == {"count": 5}
    assert json.loads(ask("count", "--json", "--conversation", "home").stdout) == {"count": 2}
    assert ask("count", "--role", "assistant").stdout == "2 messages.\n"


def test_conversations_are_listed_latest_first(ask: Ask) -> None:
    lines = [json.loads(line) for line in ask("conversations", "--json").stdout.splitlines()]
    assert lines == [
        {
            "conversation_id": "home",
            "first_ts": "2024-05-01T08:03:00Z",
            "last_ts": "2024-05-01T08:04:00Z",
            "message_count": 2,
        },
        {
            "conversation_id": "dinner",
            "first_ts": "2024-05-01T08:00:00Z",
            "last_ts": "2024-05-01T08:02:00Z",
            "message_count": 3,
        },
    ]


def test_list_continues_at_the_cursor(ask: Ask) -> None:
    first = ask("list", "--json", "--limit", "3")
    assert ids(first) == ["m4", "m3", "m2"]
    cursor = first.stderr.removeprefix("next_cursor: ").strip()
    assert ids(ask("list", "--json", "--limit", "0", "--cursor", cursor)) == ["m1", "m0"]


def test_search_finds_exact_phrases(ask: Ask) -> None:
    assert set(ids(ask("search", '"不吃辣"', "--json"))) == {"m0", "m1"}
    assert ids(ask("search", '"不吃辣" -记住', "--json")) == ["m0"]
    assert ids(ask("search", "moved", "--json", "--role", "user")) == ["m3"]


def test_search_highlights_its_matches(ask: Ask) -> None:
    record = json.loads(ask("search", '"不吃辣"', "--json", "--role", "user").stdout)
    spans = [record["content"][span["start"] : span["end"]] for span in record["highlight"]["spans"]]
    assert spans == ["不吃辣"]
    assert "\x1b[1;30;103m不吃辣\x1b[0m" in ask("search", '"不吃辣"', colour=True).stdout


def test_semantic_search_returns_the_most_similar_first(ask: Ask) -> None:
    result = ask("semantic", "Which city does she live in?", "--json", "--top-k", "2")
    assert sorted(ids(result)) == ["m3", "m4"]
    scores = [json.loads(line)["semantic_score"] for line in result.stdout.splitlines()]
    assert scores == sorted(scores, reverse=True)
    assert ids(ask("semantic", "Lisbon", "--json", "--min-score", "1")) == []


def test_neighbors_read_around_a_message(ask: Ask) -> None:
    result = ask("neighbors", "m2", "--before", "1", "--after", "1", "--json")
    assert ids(result) == ["m1", "m2", "m3"]
    assert [json.loads(line).get("anchor") for line in result.stdout.splitlines()] == [None, True, None]
    unknown = ask("neighbors", "nope")
    assert (unknown.exit_code, "message not found" in unknown.stderr) == (1, True)


def test_delete_asks_for_confirmation(ask: Ask) -> None:
    kept = ask("delete", "m0", stdin="n\n")
    assert (kept.exit_code, kept.stdout) == (1, "")
    assert len(ids(ask("list", "--json"))) == 5
    assert ask("delete", "m0", stdin="y\n").exit_code == 0
    assert ids(ask("list", "--json")) == ["m4", "m3", "m2", "m1"]
    receipt = json.loads(ask("delete", "m0", "m1", "--yes", "--json").stdout)
    assert (receipt["deleted"], receipt["missing_message_ids"]) == (1, ["m0"])


def test_delete_by_filter_removes_messages_that_match_every_condition(ask: Ask) -> None:
    kept = ask("delete", "--since", START.isoformat(), stdin="n\n")
    assert (kept.exit_code, "all messages that match these filters" in kept.stderr) == (1, True)
    until = (START + timedelta(minutes=2)).isoformat()
    assert json.loads(ask("delete", "--until", until, "--yes", "--json").stdout)["deleted"] == 2
    assert ids(ask("list", "--json")) == ["m4", "m3", "m2"]


@pytest.mark.parametrize("arguments", [[], ["m0", "--role", "user"]])
def test_delete_requires_either_ids_or_filters(ask: Ask, arguments: list[str]) -> None:
    refused = ask("delete", *arguments, "--yes")
    assert (refused.exit_code, "Give either message ids or" in refused.stderr) == (2, True)
    assert len(ids(ask("list", "--json"))) == 5


def test_erase_asks_for_confirmation_and_shows_the_receipt(run: Run, server: Server, ask: Ask, user: str) -> None:
    options = ["erase", "--user", user, "--target", server.target]
    kept = run(*options, stdin="n\n")
    assert (kept.exit_code, kept.stdout) == (1, "")
    receipt = json.loads(run(*options, "--yes", "--json").stdout)
    assert receipt["deleted"] == 5
    assert {"sequence", "write_token", "erase_ts"} < receipt.keys()
    assert {"location", "detail", "purge_ts"} == receipt["residues"][0].keys()
    assert ids(ask("list", "--json")) == []
    again = run(*options, stdin="y\n")
    assert "0 messages" in again.stdout
    assert "log: " in again.stdout


def test_status_counts_what_is_stored(ask: Ask) -> None:
    give_up = time.monotonic() + 30  # found messages may not have reached the index files yet
    while (status := json.loads(ask("status", "--json").stdout))["lexical"]["pending"] and time.monotonic() < give_up:
        time.sleep(0.05)
    assert (status["log"]["messages"], status["log"]["users"]) == (5, 1)
    assert (status["lexical"]["pending"], status["vector"]["pending"]) == (0, 0)


def test_error_lists_every_violation(ask: Ask) -> None:
    result = ask("list", "--cursor", "c_nonsense", "--conversation", "x" * 200)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert "  filter.conversation_id: " in result.stderr


def test_malformed_cursor_has_its_own_reason(ask: Ask) -> None:
    result = ask("list", "--cursor", "c_nonsense")
    assert (result.exit_code, result.stderr.splitlines()[0]) == (1, "Error: cursor malformed")
