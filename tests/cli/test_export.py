"""Tests for `nomemory export`, including a round trip with `nomemory import`."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import grpc
from cli.command_line import Run
from client.scripted_server import Scripted
from hypothesis import given, settings
from hypothesis import strategies as st
from server.test_export import anything_said

from nomemory.cli.json_lines import build_message_record
from nomemory.cli.terminal import encode_utf8_line
from nomemory.client.messages import chat_message, to_timestamp
from nomemory.client.sync import Client
from nomemory.importing.jsonl import JsonLinesImporter
from nomemory.importing.record import AcceptedMessage, ImportDefaults, Record, SourceLocation
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import message_pb2, query_service_pb2
from running_server import Server

MESSAGE = chat_message(user_id="ann", ts="2024-05-01T08:30:00.000001Z", role="user", content="hi", message_id="m1")


def imported(line: str) -> message_pb2.ChatMessage:
    (parsed,) = JsonLinesImporter(ImportDefaults()).parse(Record(SourceLocation("line", 1), json.loads(line), line))
    assert isinstance(parsed, AcceptedMessage)
    assert parsed.ignored == ()
    return parsed.message


@given(message=anything_said(), expires=st.none() | st.integers(1, 10**15))
@settings(max_examples=100)
def test_export_line_round_trips_the_message(message: message_pb2.ChatMessage, expires: int | None) -> None:
    message.user_id = "u\u2028"
    if expires is not None:
        message.expire_ts.FromMicroseconds(message.ts.ToMicroseconds() + expires)
    shown = message_pb2.ChatMessage(retracted_by="m1")
    shown.MergeFrom(message)
    line = encode_utf8_line(build_message_record(shown))
    assert line.count("\n") == len(line.splitlines()) == 1
    assert imported(line) == message


def test_export_and_import_copy_all_messages(
    start: Callable[[Settings], AbstractContextManager[Server]], own_settings: Settings, tmp_path: Path, run: Run
) -> None:
    with start(own_settings) as old, Client(old.target) as client:
        client.write(
            chat_message(
                user_id=user,
                message_id=f"m{number}",
                ts=f"2024-05-01T08:30:{number:02}.{number:06}Z",
                role="assistant" if number % 2 else "user",
                content=f"第 {number} 条\r\n\x1b \u2028 x",
                name="安" if number % 3 else "",
                conversation_id="c\u202e" if number % 2 else "",
                metadata={"钥": "值\n", "empty": ""} if number % 2 else {},
            )
            for user in ("ann", "安娜", "ben ")
            for number in range(20)
        )
        receipt = run("export", "--out", "all.jsonl", "--target", old.target, "--json")
        assert json.loads(receipt.stdout) == {"file": "all.jsonl", "users": 3, "messages": 60}
        assert run("export", "--target", old.target).stdout.encode() == Path("all.jsonl").read_bytes()
        everything = [batch.messages for user in ("ann", "ben ", "安娜") for batch in client.export_messages(user)]
    with start(own_settings.copy_with_changes(data=tmp_path / "other")) as new, Client(new.target) as client:
        summary = json.loads(run("import", "all.jsonl", "--target", new.target, "--json").stdout)
        assert (summary["created"], summary["rejected"], summary["ignored_fields"]) == (60, 0, {})
        assert [b.messages for user in ("ann", "ben ", "安娜") for b in client.export_messages(user)] == everything


def test_export_returns_matching_messages_of_one_user(vector_server: Server, run: Run, user: str) -> None:
    with Client(vector_server.target) as client:
        client.write(
            chat_message(user_id=name, message_id=f"m{n}", ts=f"2024-05-0{n}T00:00:00Z", role="user", content="x")
            for name in (user, f"{user}-other")
            for n in (1, 2, 3)
        )
    result = run("export", "--user", user, "--since", "2024-05-02", "--target", vector_server.target)
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(record["user_id"], record["message_id"]) for record in records] == [(user, "m2"), (user, "m3")]


def test_output_file_is_replaced_only_by_a_complete_export(script: Scripted, run: Run) -> None:
    batch = query_service_pb2.ExportMessagesResponse(messages=[MESSAGE], next_cursor="c")
    script.will("ExportMessages", batch, grpc.StatusCode.INTERNAL)
    arguments = ("export", "--user", "ann", "--out", "ann.jsonl", "--target", script.target)
    done = run(*arguments)
    assert (done.exit_code, done.stdout) == (0, "ann.jsonl: 1 message of 1 user.\n")
    kept = Path("ann.jsonl").read_text(encoding="utf-8")
    assert json.loads(kept)["ts"] == "2024-05-01T08:30:00.000001Z"
    broken = run(*arguments)
    assert broken.exit_code == 1
    assert Path("ann.jsonl").read_text(encoding="utf-8") == kept
    assert [path.name for path in Path().iterdir()] == ["ann.jsonl"]


def test_export_includes_the_expiry_time(script: Scripted, run: Run) -> None:
    expiring = message_pb2.ChatMessage()
    expiring.CopyFrom(MESSAGE)
    expiring.expire_ts.CopyFrom(to_timestamp("expire_ts", "2030-01-01T00:00:00Z"))
    script.will("ExportMessages", query_service_pb2.ExportMessagesResponse(messages=[expiring]))
    line = run("export", "--user", "ann", "--target", script.target).stdout
    assert json.loads(line)["expire_ts"] == "2030-01-01T00:00:00Z"
    assert imported(line) == expiring
