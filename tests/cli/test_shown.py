"""Tests for the text and JSON output of each command, compared with the files in `golden/`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from cli.command_line import Run
from click.testing import CliRunner
from client.scripted_server import Answer, Scripted
from google.protobuf.timestamp_pb2 import Timestamp

from nomemory.cli.main import nomemory
from nomemory.client.messages import RoleName, chat_message
from nomemory.v1 import ingest_service_pb2, message_pb2, query_service_pb2, recall_service_pb2, server_service_pb2

Golden = Callable[[str, str], None]

NOMEMORY = [sys.executable, "-c", "from nomemory.cli.main import main; main()"]
NASTY = "看\x1b[2J\x9b31m\u202e这"


def new_message(
    message_id: str, minute: int, content: str, role: RoleName = "user", **more: str
) -> message_pb2.ChatMessage:
    return chat_message(
        user_id="ann",
        message_id=message_id,
        ts=datetime(2024, 5, 1, 8, minute, tzinfo=UTC),
        role=role,
        content=content,
        name=more.get("name", ""),
        conversation_id=more.get("conversation", "dinner"),
        metadata={"source": "app"} if more.get("source") else {},
    )


CHAT = [
    new_message("m5", 31, "Then let us go to the hot pot place.\nAt seven?", name="Ben"),
    new_message("m4", 30, "我从小就不吃辣椒，你呢？", name="安"),
    new_message("m3", 12, "很长的话" * 300, "assistant", conversation="", source="yes"),
    new_message("m2", 11, NASTY, "system", name="a\nb"),
    new_message("m1", 5, "好的 😀", "assistant", conversation="breakfast"),
]


def span(start: int, end: int) -> message_pb2.Span:
    return message_pb2.Span(start=start, end=end)


RETRACTED = [new_message("m7", 40, "No, at the noodle place."), new_message("m6", 39, "At the hot pot place.")]
RETRACTED[0].retracts.extend(["m6", "m0"])
RETRACTED[1].retracted_by = "m7"


LEXICAL = query_service_pb2.LexicalSearchResponse(
    items=[CHAT[1], CHAT[2]],
    scores=[
        query_service_pb2.MessageScore(message_id=CHAT[1].message_id, score=3.25),
        query_service_pb2.MessageScore(message_id=CHAT[2].message_id, score=0.125),
    ],
    highlights=[
        query_service_pb2.Highlight(spans=[span(4, 7)], snippet=span(0, 12), snippet_text="我从小就不吃辣椒，你呢？"),
        query_service_pb2.Highlight(
            spans=[span(400, 402)], snippet=span(380, 440), snippet_text=CHAT[2].content[380:440]
        ),
    ],
    next_cursor="c_next",
    index_lagging=True,
)
SEMANTIC = query_service_pb2.SemanticSearchResponse(
    items=[
        query_service_pb2.SemanticItem(message=CHAT[0], score=0.875),
        query_service_pb2.SemanticItem(message=CHAT[4], score=0.75),
    ],
    truncated=True,
    index_lagging=True,
    embedding_model="m",
)
HYBRID = query_service_pb2.HybridSearchResponse(
    items=[
        query_service_pb2.HybridItem(
            message=CHAT[0],
            score=1.25,
            explanation=query_service_pb2.ScoreExplanation(
                semantic_score=0.875,
                lexical_score=3.5,
                coverage=0.5,
                components=[
                    query_service_pb2.ScoreComponent(name="meaning", value=0.75),
                    query_service_pb2.ScoreComponent(name="asks", value=-0.25),
                ],
            ),
        ),
        query_service_pb2.HybridItem(message=CHAT[4], score=0.75),
    ],
    truncated=True,
    index_lagging=True,
    semantic_unavailable=True,
    sufficiency=0.875,
)
NEIGHBORS = query_service_pb2.GetNeighborsResponse(items=CHAT[:2][::-1], anchor_index=1, truncated_before=True)
STATUS = ingest_service_pb2.GetIndexStatusResponse(
    log=ingest_service_pb2.LogStatus(sequence=12_345, messages=11_917, users=46),
    lexical=ingest_service_pb2.IndexStatus(name="lexical", checkpoint=12_345),
    vector=ingest_service_pb2.IndexStatus(
        name="model_384",
        checkpoint=9_000,
        pending=1,
        dead_letters=2,
        dead_letter_message_ids=["m8", "m9"],
        error="TimeoutError",
    ),
    embedder=ingest_service_pb2.EmbedderStatus(
        kind=ingest_service_pb2.EMBEDDER_KIND_LOCAL, model="small", dimension=384, texts_embedded=9_001
    ),
)
UNWELL = ingest_service_pb2.GetIndexStatusResponse(
    log=STATUS.log,
    lexical=STATUS.lexical,
    vector=ingest_service_pb2.IndexStatus(
        name="model_384", checkpoint=12_345, error="UNRESPONSIVE", error_ts=Timestamp(seconds=1_700_000_000)
    ),
    embedder=STATUS.embedder,
    faults=[
        ingest_service_pb2.ServerFault(
            component=ingest_service_pb2.COMPONENT_VECTOR_ENGINE,
            kind=ingest_service_pb2.FAULT_KIND_UNRESPONSIVE,
            start_ts=Timestamp(seconds=1_700_000_000),
            detail="it answers no heartbeat",
        )
    ],
)
CHANGING = ingest_service_pb2.GetIndexStatusResponse(
    log=STATUS.log,
    lexical=STATUS.lexical,
    vector=ingest_service_pb2.IndexStatus(name="model_384", checkpoint=12_345),
    embedder=STATUS.embedder,
    next_vector=ingest_service_pb2.IndexStatus(name="larger-1024", checkpoint=345, pending=11_500),
    next_embedder=ingest_service_pb2.EmbedderStatus(
        kind=ingest_service_pb2.EMBEDDER_KIND_OPENAI, model="larger", dimension=1024, texts_embedded=417
    ),
)
INFO = server_service_pb2.GetServerInfoResponse(
    version="0.2.0",
    embedding_model="small",
    embedding_dimension=384,
    features=["query", "ingest", "recall", "semantic_search_text", "a\nb"],
    limits=server_service_pb2.ServerLimits(
        max_request_bytes=16_777_216,
        max_batch_messages=1_000,
        max_top_k=1,
        max_turns=20,
        max_inflight_reads_per_user=32,
    ),
    read_load=server_service_pb2.ReadLoad(running=2, waiting=1_030, users=3, rejected=7),
)
DELETED = ingest_service_pb2.DeleteMessagesResponse(deleted=1, missing_message_ids=["m7"], write_token="t_1")  # noqa: S106 - not a secret

CONVERSATIONS = query_service_pb2.ListConversationsResponse(
    conversations=[
        query_service_pb2.Conversation(
            conversation_id="dinner", first_ts=CHAT[3].ts, last_ts=CHAT[0].ts, message_count=1_204
        ),
        query_service_pb2.Conversation(conversation_id=NASTY, first_ts=CHAT[4].ts, last_ts=CHAT[4].ts, message_count=1),
    ],
    next_cursor="c_next",
)
USERS = query_service_pb2.ListUsersResponse(
    users=[
        query_service_pb2.UserSummary(user_id="ann", message_count=11_917),
        query_service_pb2.UserSummary(user_id=NASTY, message_count=1),
    ]
)

COMMANDS = {
    "list": (
        ["list", "--user", "ann", "--limit", "5"],
        "ListMessages",
        query_service_pb2.ListMessagesResponse(items=CHAT, next_cursor="c_next"),
    ),
    "retracted": (
        ["list", "--user", "ann"],
        "ListMessages",
        query_service_pb2.ListMessagesResponse(items=RETRACTED),
    ),
    "search": (["search", "不吃辣", "--user", "ann", "--limit", "2"], "LexicalSearch", LEXICAL),
    "semantic": (["semantic", "dinner?", "--user", "ann"], "SemanticSearch", SEMANTIC),
    "hybrid": (["hybrid", "dinner?", "--user", "ann", "--explain"], "HybridSearch", HYBRID),
    "neighbors": (["neighbors", "m5", "--user", "ann"], "GetNeighbors", NEIGHBORS),
    "status": (["status"], "GetIndexStatus", STATUS),
    "status-unwell": (["status"], "GetIndexStatus", UNWELL),
    "status-changing": (["status"], "GetIndexStatus", CHANGING),
    "info": (["info"], "GetServerInfo", INFO),
    "info-recall-only": (
        ["info"],
        "GetServerInfo",
        server_service_pb2.GetServerInfoResponse(version="0.2.0", features=["recall"]),
    ),
    "delete": (["delete", "m1", "m7", "--user", "ann", "--yes"], "DeleteMessages", DELETED),
    "conversations": (["conversations", "--user", "ann", "--limit", "2"], "ListConversations", CONVERSATIONS),
    "count": (
        ["count", "--user", "ann"],
        "CountMessages",
        query_service_pb2.CountMessagesResponse(count=11_917),
    ),
    "users": (["users"], "ListUsers", USERS),
    "no-users": (["users"], "ListUsers", query_service_pb2.ListUsersResponse()),
    "no-conversations": (
        ["conversations", "--user", "ann"],
        "ListConversations",
        query_service_pb2.ListConversationsResponse(),
    ),
    "export": (
        ["export", "--user", "ann"],
        "ExportMessages",
        query_service_pb2.ExportMessagesResponse(messages=CHAT[::-1]),
    ),
    "nothing": (["list", "--user", "ann"], "ListMessages", query_service_pb2.ListMessagesResponse()),
    "status-without-embedder": (
        ["status", "--user", "ann"],
        "GetIndexStatus",
        ingest_service_pb2.GetIndexStatusResponse(
            embedder=ingest_service_pb2.EmbedderStatus(kind=ingest_service_pb2.EMBEDDER_KIND_NONE)
        ),
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("form", ["txt", "jsonl"])
def test_command_output_matches_the_golden_file(
    name: str, form: str, run: Run, script: Scripted, golden: Golden
) -> None:
    arguments, rpc, reply = COMMANDS[name]
    script.will(rpc, reply)
    result = run(*arguments, "--target", script.target, *(["--json"] if form == "jsonl" else []))
    assert result.exit_code == 0
    golden(f"{name}.{form}", f"{result.stdout}--- stderr\n{result.stderr}")


@pytest.mark.parametrize("name", ["search", "neighbors"])
def test_terminal_output_is_colored(name: str, run: Run, script: Scripted, golden: Golden) -> None:
    arguments, rpc, reply = COMMANDS[name]
    script.will(rpc, reply)
    result = run(*arguments, "--target", script.target, colour=True)
    golden(f"{name}.ansi", result.stdout)


@pytest.mark.parametrize(("no_color", "escapes"), [("1", False), ("", True)])
def test_no_color_disables_all_escape_sequences(no_color: str, escapes: bool, script: Scripted) -> None:  # noqa: FBT001 - a parameter of a table
    arguments, rpc, reply = COMMANDS["search"]
    script.will(rpc, reply)
    colour = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "NO_COLOR": no_color}
    done = CliRunner().invoke(nomemory, [*arguments, "--target", script.target], env=colour)
    assert done.exit_code == 0
    assert ("\x1b" in done.stdout) is escapes


def test_every_hybrid_result_line_has_the_sufficiency(run: Run, script: Scripted) -> None:
    arguments, rpc, reply = COMMANDS["hybrid"]
    script.will(rpc, reply)
    lines = run(*arguments, "--target", script.target, "--json").stdout.splitlines()
    assert [json.loads(line)["sufficiency"] for line in lines] == [0.875, 0.875]
    assert all(
        {"message_id", "score", "speaker_matched", "semantic_unavailable"} <= json.loads(line).keys() for line in lines
    )


@pytest.mark.parametrize(("text", "verb"), [("I never eat spicy food", "quotes"), ("Eats nothing spicy", "cites")])
def test_view_heading_distinguishes_quotes_from_citations(text: str, verb: str, run: Run, script: Scripted) -> None:
    citation = recall_service_pb2.Citation(message_id="m1", quote="I never eat spicy food")
    view = recall_service_pb2.MemoryView(preferences=[recall_service_pb2.Statement(text=text, citations=[citation])])
    reply = recall_service_pb2.RecallResponse(verdict=recall_service_pb2.VERDICT_SUPPORTED, memory_view=view)
    script.will("StreamRecall", recall_service_pb2.StreamRecallResponse(result=reply))
    shown = run("recall", "spicy?", "--user", "ann", "--target", script.target).stdout
    assert f"Each line {verb} a message." in shown


UNUSUAL = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.parametrize("locale", [UNUSUAL, {"PYTHONIOENCODING": "latin-1"}, {"LC_ALL": "C"}, {"LANG": "C"}])
def test_output_is_utf8_in_any_locale(locale: dict[str, str], script: Scripted) -> None:
    script.will("ListMessages", query_service_pb2.ListMessagesResponse(items=CHAT))
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHON"))}
    command = [*NOMEMORY, "list", "--user", "ann", "--target", script.target]
    for more in ([], ["--json"]):
        done = subprocess.run([*command, *more], env=inherited | locale, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
        assert b"hot pot" in done.stdout
    assert [json.loads(line)["content"] for line in done.stdout.splitlines()] == [message.content for message in CHAT]


def test_undecodable_argument_is_a_one_line_error(script: Scripted) -> None:
    command = [*NOMEMORY, "recall", "辣吗？", "--user", "ann", "--target", script.target]
    done = subprocess.run(command, env=os.environ | UNUSUAL, capture_output=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == b"Error: An argument cannot be decoded in this locale. Set LC_ALL=C.UTF-8."


def test_full_option_shows_long_messages_untruncated(run: Run, script: Scripted) -> None:
    script.will("ListMessages", query_service_pb2.ListMessagesResponse(items=CHAT[2:3]))
    whole = run("list", "--user", "ann", "--full", "--target", script.target)
    cut = run("list", "--user", "ann", "--target", script.target)
    assert (whole.stdout.count("很"), cut.stdout.count("很")) == (300, 100)
    assert "(1,200" in cut.stdout


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_message_content_cannot_send_terminal_escape_sequences(run: Run, script: Scripted, more: list[str]) -> None:
    script.will("ListMessages", query_service_pb2.ListMessagesResponse(items=CHAT))
    shown = run("list", "--user", "ann", "--target", script.target, *more).stdout
    assert not set(shown) & {"\x1b", "\x9b", "\u202e", "\r"}


def test_json_output_has_the_exact_content(run: Run, script: Scripted) -> None:
    script.will("ListMessages", query_service_pb2.ListMessagesResponse(items=CHAT))
    shown = run("list", "--user", "ann", "--target", script.target, "--json").stdout
    assert [json.loads(line)["content"] for line in shown.splitlines()] == [message.content for message in CHAT]


@pytest.mark.parametrize(
    ("arguments", "rpc", "reply", "work"),
    [
        (["search", "x"], "LexicalSearch", query_service_pb2.LexicalSearchResponse(index_lagging=True), "indexed"),
        (["semantic", "x"], "SemanticSearch", query_service_pb2.SemanticSearchResponse(index_lagging=True), "indexed"),
        (["hybrid", "x"], "HybridSearch", query_service_pb2.HybridSearchResponse(index_lagging=True), "indexed"),
    ],
)
def test_empty_results_of_a_lagging_index_name_the_lag(
    arguments: list[str],
    rpc: str,
    reply: Answer,
    work: str,
    run: Run,
    script: Scripted,
) -> None:
    script.will(rpc, reply)
    result = run(*arguments, "--user", "ann", "--target", script.target)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith(f"No messages found. Some messages are still being {work}")
