"""Tests for the text and JSON output of `nomemory recall`."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from cli.command_line import Run
from client.scripted_server import Scripted
from rich.console import Console

from nomemory.cli.console import create_stderr_console, create_stdout_console
from nomemory.cli.json_lines import JsonLines
from nomemory.cli.text_output import TextOutput
from nomemory.client import Client
from nomemory.client.messages import chat_message, to_timestamp
from nomemory.v1 import message_pb2
from nomemory.v1 import recall_service_pb2 as pb
from running_server import Server

Golden = Callable[[str, str], None]

SPICY = "小炒肉就算了，我从小不吃辣\x1b[2J"
LATER = "我现在能吃微辣了"
MANGO = "我对芒果过敏。"


def cited(message_id: str, quote: str, day: int) -> pb.Citation:
    return pb.Citation(
        message_id=message_id,
        quote=quote,
        span=message_pb2.Span(start=0, end=len(quote)),
        ts=to_timestamp("ts", datetime(2025, 3, day, tzinfo=UTC)),
    )


EARLY = pb.Statement(text=SPICY, citations=[cited("m1", SPICY, 7)])
NOW = pb.Statement(text="Eats mildly spicy food now.", citations=[cited("m2", LATER, 9)])
STEP = pb.RecallStep(iteration=1, thought="words first", tool="lexical_search", hits=2, observation="2 of 2 shown")
STEP.arguments.update({"query_text": "不吃辣", "filter": {"role": "user"}, "page_size": 50})
ANSWER = pb.RecallResponse(
    memory_view=pb.MemoryView(preferences=[EARLY, NOW]),
    conflicts=[pb.Conflict(earlier=EARLY, later=NOW)],
    evidence=[pb.EvidenceMessage(message=chat_message(
        user_id="", message_id="m1", ts=datetime(2025, 3, 7, tzinfo=UTC), role="user", content=SPICY), score=0.9)],
    limits=pb.RecallLimits(
        messages_considered=12, tool_calls=3, iterations=2, planner=pb.PLANNER_RULES, index_lagging=True,
        stop_reason=pb.STOP_REASON_SUFFICIENT, notes=[pb.Note(text="1 pair(s) of statements contradict each other")],
    ),
    verdict=pb.VERDICT_CONFLICTING,
)  # fmt: skip


@pytest.mark.parametrize("explain", [False, True])
def test_text_output_matches_the_golden_file(explain: bool, golden: Golden) -> None:  # noqa: FBT001 - pytest gives it by name
    shown, error_output = io.StringIO(), io.StringIO()
    human = TextOutput(Console(file=shown, width=88, markup=False), Console(file=error_output, width=88, markup=False))
    if explain:
        human.show_step(STEP)
    human.show(ANSWER, explain=explain)
    golden(f"recall{'-explained' if explain else ''}.txt", f"{error_output.getvalue()}---\n{shown.getvalue()}")
    assert "\x1b" not in shown.getvalue()


def test_json_output_has_the_documented_structure(capsys: pytest.CaptureFixture[str]) -> None:
    traced = pb.RecallResponse(trace=[STEP])
    traced.MergeFrom(ANSWER)
    JsonLines().show_step(STEP)
    JsonLines().show(traced, explain=True)
    (answer,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert answer["trace"][0]["arguments"]["filter"] == {"role": "user"}
    assert answer["verdict"] == "VERDICT_CONFLICTING"
    assert answer["memory_view"]["preferences"][0]["citations"][0]["quote"] == SPICY
    assert answer["oldest_first"] == ["m1"]
    assert answer["evidence"][0]["message"] == {
        "message_id": "m1",
        "ts": "2025-03-07T00:00:00Z",
        "role": "user",
        "content": SPICY,
    }


def test_json_roles_are_valid_import_roles(capsys: pytest.CaptureFixture[str]) -> None:
    limited = pb.RecallResponse(limits=pb.RecallLimits(role=message_pb2.ROLE_ASSISTANT))
    limited.MergeFrom(ANSWER)
    JsonLines().show(limited)
    written = capsys.readouterr().out
    assert json.loads(written)["limits"]["role"] == "assistant"
    assert "ROLE_" not in written


def test_answer_without_statements_shows_the_nearest_messages(capsys: pytest.CaptureFixture[str]) -> None:
    nothing = pb.RecallResponse(verdict=pb.VERDICT_INSUFFICIENT)
    TextOutput(create_stdout_console(), create_stderr_console()).show(nothing)
    assert capsys.readouterr().out == "– No answer found.\n"
    pending = pb.RecallResponse(verdict=pb.VERDICT_PENDING)
    TextOutput(create_stdout_console(), create_stderr_console()).show(pending)
    assert capsys.readouterr().out == "… Some stored messages are not searchable yet. Try again.\n"
    near = pb.RecallResponse(verdict=pb.VERDICT_INSUFFICIENT, evidence=ANSWER.evidence)
    TextOutput(create_stdout_console(), create_stderr_console()).show(near)
    shown = capsys.readouterr().out
    assert shown.startswith("– Probably not answered.\n")
    assert "Nearest messages" in shown
    assert "我从小不吃辣" in shown


PROMPTED = pb.RecallResponse(evidence=[
    pb.EvidenceMessage(message=chat_message(
        user_id="", message_id="m2", ts=datetime(2025, 3, 9, tzinfo=UTC), role="user", content=LATER), score=0.95),
    *ANSWER.evidence,
])  # fmt: skip
PROMPTED.MergeFrom(
    pb.RecallResponse(memory_view=ANSWER.memory_view, conflicts=ANSWER.conflicts, verdict=ANSWER.verdict)
)


def test_recall_as_prompt_prints_the_prompt_block(run: Run, script: Scripted, golden: Golden) -> None:
    script.will("StreamRecall", pb.StreamRecallResponse(result=PROMPTED))
    result = run("recall", "我能吃辣吗？", "--user", "lin", "--target", script.target, "--as", "prompt")
    assert result.exit_code == 0, result.stderr
    golden("recall-prompt.txt", result.stdout)
    assert "\x1b" not in result.stdout


def test_prompt_output_rejects_too_few_tokens_and_json(run: Run, script: Scripted) -> None:
    script.will("StreamRecall", pb.StreamRecallResponse(result=PROMPTED))
    command_arguments = ("recall", "我能吃辣吗？", "--user", "lin", "--target", script.target, "--as", "prompt")
    assert run(*command_arguments, "--max-tokens", "399").exit_code == 2
    both = run(*command_arguments, "--json")
    assert both.exit_code == 2
    assert "--as prompt and --json cannot be combined" in both.stderr


def test_statements_show_superseding_message_and_attribution(golden: Golden) -> None:
    shown, error_output = io.StringIO(), io.StringIO()
    reply = pb.RecallResponse(
        verdict=pb.VERDICT_POSSIBLE,
        memory_view=pb.MemoryView(
            profile=[
                pb.Statement(text=LATER, citations=[cited("m2", LATER, 9)], attribution=pb.ATTRIBUTION_USER),
                pb.Statement(
                    text=SPICY,
                    citations=[cited("m1", SPICY, 7)],
                    superseded_by="m2\x1b[2J",
                    attribution=pb.ATTRIBUTION_QUOTED,
                ),
                pb.Statement(text=MANGO, citations=[cited("m0", MANGO, 2)], attribution=pb.ATTRIBUTION_OTHER),
            ]
        ),
        evidence=ANSWER.evidence,
    )
    human = TextOutput(Console(file=shown, width=88, markup=False), Console(file=error_output, width=88, markup=False))
    human.show(reply)
    golden("recall-possible.txt", shown.getvalue())
    assert "\x1b" not in shown.getvalue()


def test_possible_contradiction_is_marked_as_a_guess() -> None:
    shown = io.StringIO()
    reply = pb.RecallResponse()
    reply.CopyFrom(ANSWER)
    reply.conflicts[0].possible = True
    TextOutput(Console(file=shown, width=88, markup=False), Console(file=io.StringIO())).show(reply)
    assert shown.getvalue().startswith("≠ Possibly contradictory evidence. Both sides are shown.\n")
    assert "These may contradict each other" in shown.getvalue()


def test_recall_answers_with_a_quote(run: Run, server: Server, user: str) -> None:
    with Client(server.target) as client:
        written = client.write(
            [
                {
                    "user_id": user,
                    "message_id": "m1",
                    "ts": datetime.now(UTC),
                    "role": "user",
                    "content": "我对芒果过敏。",
                }
            ]
        )
        client.lexical_search(user, "芒果", at_least=written.write_token)
    result = run("recall", "我对什么过敏？", "--user", user, "--target", server.target)
    assert result.exit_code == 0, result.stderr
    assert MANGO.rstrip("。") in result.stdout
    assert "m1" in result.stdout
    assert "lexical_search" not in result.stderr
    traced = run("recall", "我对什么过敏？", "--user", user, "--target", server.target, "--json", "--explain")
    (line,) = traced.stdout.splitlines()
    assert json.loads(line)["trace"]
    unknown = run("recall", "我对什么过敏？", "--user", user, "--target", server.target, "--skill", "no-such")
    assert unknown.exit_code == 1
    assert "no-such" in unknown.stderr


def test_context_output_shows_related_messages(run: Run, server: Server, user: str) -> None:
    with Client(server.target) as client:
        message_fields = {"user_id": user, "role": "user", "ts": datetime(2026, 3, 1, tzinfo=UTC)}
        messages = [
            {**message_fields, "message_id": "m1", "content": "我对芒果过敏。", "conversation_id": "a"},
            {**message_fields, "message_id": "m2", "content": "芒果好吃吗？", "conversation_id": "b"},
            {**message_fields, "message_id": "m3", "content": "芒果过敏？", "conversation_id": "c"},
        ]
        token = client.write(messages).write_token  # type: ignore[arg-type]
        client.lexical_search(user, "芒果", at_least=token)
    command_arguments = ("context", "芒果", "--user", user, "--target", server.target, "--conversation", "b")
    result = run(*command_arguments, "--exclude-conversation", "c")
    assert result.exit_code == 0, result.stderr
    assert [line[:5] for line in result.stdout.splitlines() if line.startswith("[")] == ['["m1"', '["m2"']
    as_json = json.loads(run(*command_arguments, "--json").stdout)
    assert [item["message"]["message_id"] for item in as_json["recent"]] == ["m2"]
    assert run(*command_arguments, "--max-tokens", "99").exit_code == 2


def test_conversation_option_restricts_the_answer(run: Run, server: Server, user: str) -> None:
    with Client(server.target) as client:
        messages = [
            chat_message(
                user_id=user,
                message_id=f"in-{conversation}",
                ts=datetime.now(UTC),
                role="user",
                content=MANGO,
                conversation_id=conversation,
            )
            for conversation in ("one", "two")
        ]
        client.hybrid_search(user, "x", at_least=client.write(messages).write_token)
    command_arguments = ("recall", "我对什么过敏？", "--user", user, "--target", server.target, "--json")
    answer = json.loads(run(*command_arguments, "--conversation", "two").stdout)
    assert [item["message"]["message_id"] for item in answer["evidence"]] == ["in-two"]
