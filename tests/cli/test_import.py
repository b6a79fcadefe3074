"""Tests for `nomemory import` with a real server: idempotence and the rejects file."""

from __future__ import annotations

import io
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli.command_line import Run
from click.testing import Result
from client.scripted_server import Scripted
from rich.console import Console

from nomemory.client.sync import Client
from nomemory.importing.files import ImportFile
from nomemory.importing.json_stream import read_json_values
from nomemory.importing.progress import show_indexing_progress
from nomemory.importing.record import Record, RejectedRecord, SourceLocation
from nomemory.importing.upload import OTHER_REASONS, MessageUploader, wait_until_indexed
from nomemory.server.faults import Fault, Reason
from nomemory.v1 import ingest_service_pb2, message_pb2
from running_server import Server

IMPORTS = Path(__file__).parents[1] / "importing" / "files"

Import = Callable[..., Result]


@pytest.fixture
def server(vector_server: Server) -> Server:
    """A server without an embedder, because the tests store thousands of messages."""
    return vector_server


@pytest.fixture
def import_(run: Run, server: Server) -> Import:
    """Import into the server."""

    def invoke(*arguments: str, stdin: str | bytes = "") -> Result:
        return run("import", *arguments, "--target", server.target, stdin=stdin)

    return invoke


def line(number: int, user: str, content: str = "") -> str:
    minute, second = divmod(number, 60)
    message = {
        "user_id": user,
        "message_id": f"m{number}",
        "ts": f"2024-05-01T{8 + minute // 60:02}:{minute % 60:02}:{second:02}Z",
        "role": "user",
        "content": content or f"第 {number} 条",
    }
    return json.dumps(message, ensure_ascii=False) + "\n"


def copied(name: str) -> str:
    """Copy a file into a writable directory for the rejects file."""
    Path(name).write_bytes((IMPORTS / name).read_bytes())
    return name


def rejects(path: Path | str) -> list[dict[str, Any]]:
    return [json.loads(text) for text in Path(path).read_text(encoding="utf-8").splitlines()]


def stored(server: Server, user: str) -> list[str]:
    with Client(server.target) as client:
        return [message.message_id for message in client.iter_messages(user)][::-1]


def counts(result: Result) -> dict[str, int]:
    summary = json.loads(result.stdout)
    return {key: summary[key] for key in ("created", "unchanged", "replaced", "rejected", "skipped") if summary[key]}


def test_repeated_import_stores_no_duplicates(import_: Import, server: Server, user: str) -> None:
    Path("chat.jsonl").write_text("".join(line(number, user) for number in range(30)), encoding="utf-8")
    assert counts(import_("chat.jsonl", "--json")) == {"created": 30}
    assert counts(import_("chat.jsonl", "--json")) == {"unchanged": 30}
    with Path("chat.jsonl").open("a", encoding="utf-8") as file:
        file.write(line(30, user))
    assert counts(import_("chat.jsonl", "--json")) == {"created": 1, "unchanged": 30}
    assert stored(server, user) == [f"m{number}" for number in range(31)]
    assert not Path("chat.jsonl.rejects.jsonl").exists()


def test_oversized_record_is_rejected_and_the_import_continues(import_: Import, server: Server, user: str) -> None:
    vast = line(1, user, "x" * (16 << 20))
    Path("chat.jsonl").write_text(line(0, user) + vast + line(2, user), encoding="utf-8")
    result = import_("chat.jsonl", "--json")
    assert (counts(result), result.exit_code) == ({"created": 2, "rejected": 1}, 1)
    assert stored(server, user) == ["m0", "m2"]
    (reject,) = rejects("chat.jsonl.rejects.jsonl")
    assert reject["line"] == 2
    assert "limit" in reject["reasons"][0]


@pytest.mark.parametrize("form", ["lines", "array"])
def test_oversized_record_is_not_kept_in_memory(form: str, tmp_path: Path) -> None:
    good, endless = '{"content": "a", "ts": "2024-05-01T08:00:00Z"}', '{"content": "' + "x" * (1 << 20)
    path = tmp_path / "endless.json"
    with path.open("w", encoding="utf-8") as file:
        file.write(f"{good}\n" if form == "lines" else f"[{good},")
        file.write(endless)
        for _ in range(160):
            file.write("x" * (1 << 20))
        file.write(f'"}}\n{good}\n' if form == "lines" else f'"}},{good}]')
    tracemalloc.start()
    source = ImportFile(str(path))
    kinds = [type(item) for item in read_json_values(source)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kinds == [Record, RejectedRecord, Record]
    assert peak < 200 << 20


@pytest.mark.parametrize("name", ["messages.jsonl", "openai.jsonl", "loose.json", "conversations.json"])
def test_every_format_is_stored_once(name: str, import_: Import, server: Server, user: str) -> None:
    arguments = (copied(name), "--user", user, "--start", "2024-05-01", "--json")
    first, second = counts(import_(*arguments)), counts(import_(*arguments))
    assert first["created"] == second["unchanged"] == len(stored(server, user)) > 0
    assert "created" not in second


@pytest.mark.parametrize("name", ["openai.json", "conversations.json"])
def test_tool_messages_are_imported_with_the_tool_role(name: str, import_: Import, server: Server, user: str) -> None:
    import_(copied(name), "--user", user, "--start", "2024-05-01")
    with Client(server.target) as client:
        (tool_message,) = client.iter_messages(user, role="tool")
        assert tool_message.role == message_pb2.ROLE_TOOL
        assert "original_role" not in tool_message.metadata


def test_invalid_lines_are_written_to_the_rejects_file_and_valid_ones_stored(
    import_: Import, server: Server, user: str
) -> None:
    result = import_(copied("broken.jsonl"), "--user", user, "--json")
    assert result.exit_code == 1
    assert counts(result) == {"created": 2, "rejected": 6}
    assert stored(server, user) == ["b1", "b5"]
    rejected_lines = rejects("broken.jsonl.rejects.jsonl")
    assert [entry["line"] for entry in rejected_lines] == [2, 3, 4, 5, 6, 7]
    originals = (IMPORTS / "broken.jsonl").read_text(encoding="utf-8").splitlines()
    assert [entry["original"] for entry in rejected_lines] == originals[1:7]
    assert all(entry["reasons"] and entry["file"] == "broken.jsonl" for entry in rejected_lines)


@pytest.mark.parametrize("ts", ["1" + "0" * 400, "1e400", "-1e99"])
def test_invalid_numeric_timestamp_is_rejected(ts: str, import_: Import, user: str) -> None:
    Path("odd.json").write_text(f"[{line(1, user)}]".replace('"2024-05-01T08:00:01Z"', ts), encoding="utf-8")
    assert import_("odd.json", "--dry-run").exit_code == 1
    assert rejects("odd.json.rejects.jsonl")[0]["reasons"] == ["ts: must be a time from the year 1 to the year 9999"]


@pytest.mark.parametrize("levels", range(900, 1_100, 10))
@pytest.mark.parametrize("name", ["deep.jsonl", "deep.json"])
def test_deeply_nested_value_is_stored_or_rejected(name: str, levels: int, import_: Import, user: str) -> None:
    deep = line(1, user).replace("}", f', "metadata": {{"a": {"[" * levels}{"]" * levels}}}}}')
    Path(name).write_text(deep if name.endswith("l") else f"[\n{deep}\n]", encoding="utf-8")
    summary = json.loads(import_(name, "--dry-run", "--json").stdout)
    assert summary["sent"] + summary["rejected"] == 1


def test_rejections_have_correct_line_numbers_across_several_streams(
    import_: Import, server: Server, user: str
) -> None:
    lines = [line(number, user) for number in range(2_500)]
    lines[3] = "broken\n"
    lines[700] = line(700, user, content="x" * 300_000)
    lines[1_999] = line(12, user, content="the id of line 13 with other words")
    lines[2_400] = json.dumps({**json.loads(lines[2_400]), "conversation_id": "c\u0000"}) + "\n"
    Path("long.jsonl").write_text("".join(lines), encoding="utf-8")
    result = import_("long.jsonl", "--json")
    assert counts(result) == {"created": 2_496, "rejected": 4}
    rejected_lines = rejects("long.jsonl.rejects.jsonl")
    assert [entry["line"] for entry in rejected_lines] == [4, 701, 2_000, 2_401]
    reasons: list[list[str]] = [entry["reasons"] for entry in rejected_lines]
    assert reasons[0][0].startswith("is not JSON: Expecting value")
    assert [reason[0].partition(":")[0] for reason in reasons[1:]] == ["content", "message_id", "conversation_id"]
    assert rejected_lines[2]["original"] == lines[1_999].strip()
    assert len(stored(server, user)) == 2_496


def test_changed_message_is_rejected_without_the_replace_option(import_: Import, user: str) -> None:
    Path("old.jsonl").write_text(line(1, user, "我住在北京"), encoding="utf-8")
    Path("new.jsonl").write_text(line(1, user, "我搬到了上海"), encoding="utf-8")
    import_("old.jsonl")
    assert counts(import_("new.jsonl", "--json")) == {"rejected": 1}
    assert counts(import_("new.jsonl", "--json", "--replace")) == {"replaced": 1}
    assert not Path("new.jsonl.rejects.jsonl").exists()


def test_duplicate_id_in_a_file_is_imported_once(import_: Import, server: Server, user: str) -> None:
    Path("twice.jsonl").write_text(line(1, user) + line(1, user) + line(1, user, "anders"), encoding="utf-8")
    assert counts(import_("twice.jsonl", "--json")) == {"created": 1, "unchanged": 1, "rejected": 1}
    assert rejects("twice.jsonl.rejects.jsonl")[0]["line"] == 3
    assert stored(server, user) == ["m1"]


def test_standard_input_is_imported_like_a_file(import_: Import, server: Server, user: str) -> None:
    result = import_("-", stdin=line(1, user) + "broken\n")
    assert result.exit_code == 1
    assert stored(server, user) == ["m1"]
    assert rejects("stdin.rejects.jsonl")[0]["line"] == 2


def test_list_output_can_be_imported(import_: Import, run: Run, server: Server, user: str) -> None:
    import_(copied("openai.json"), "--user", user, "--start", "2024-05-01")
    written = run("list", "--user", user, "--json", "--limit", "0", "--target", server.target).stdout
    assert counts(import_("-", "--json", stdin=written)) == {"unchanged": 6}
    again = import_("-", "--json", "--user", f"{user}-2", stdin=written)
    assert counts(again) == {"created": 6}
    assert stored(server, f"{user}-2") == stored(server, user)


def test_summary_shows_count_reason_and_location_of_rejections(import_: Import, user: str) -> None:
    message = {"user_id": user, "ts": "2024-05-01T08:30:00Z", "role": "user", "content": "hi"}
    bad: list[dict[str, str]] = [{**message, "ts": ""}, message, {**message, "ts": ""}, {**message, "content": " "}]
    text = "".join(json.dumps(item) + "\n" for item in bad) + "{no\n{nor this\n"
    Path("bad.jsonl").write_text(text, encoding="utf-8")
    lines = import_("bad.jsonl").stdout.splitlines()
    assert lines[1:] == [
        "  1 created, 5 rejected",
        "  2 × ts: must be an RFC 3339 time such as 2024-05-01T08:30:00Z (first at line 1)",
        "  2 × is not JSON: Expecting property name enclosed in double quotes (first at line 5)",
        "  1 × content: must not be blank (first at line 4)",
        "  Rejected messages and reasons: bad.jsonl.rejects.jsonl",
    ]


def test_excess_rejection_reasons_are_grouped() -> None:
    upload = MessageUploader(lambda _: ingest_service_pb2.ImportMessagesResponse(), lambda *_: None)
    refused = [RejectedRecord(SourceLocation("line", number), "", (f"reason {number}",)) for number in range(1, 31)]
    assert list(upload.send_messages(refused))
    assert (
        len(upload.rejection_groups),
        upload.rejection_groups[OTHER_REASONS].count,
        upload.rejection_groups[OTHER_REASONS].first.number,
    ) == (
        21,
        10,
        21,
    )


def test_dry_run_stores_nothing(import_: Import, server: Server, user: str) -> None:
    result = import_(copied("broken.jsonl"), "--user", user, "--dry-run", "--json")
    assert json.loads(result.stdout)["sent"] == 2
    assert len(rejects("broken.jsonl.rejects.jsonl")) == 6
    assert stored(server, user) == []


def behind(pending: int) -> ingest_service_pb2.GetIndexStatusResponse:
    vector = ingest_service_pb2.IndexStatus(pending=pending, checkpoint=9 - pending)
    lexical = ingest_service_pb2.IndexStatus(checkpoint=9)
    log = ingest_service_pb2.LogStatus(sequence=9)
    return ingest_service_pb2.GetIndexStatusResponse(log=log, lexical=lexical, vector=vector)


def test_wait_ends_when_all_messages_are_searchable(import_: Import, server: Server, user: str) -> None:
    Path("chat.jsonl").write_text("".join(line(number, user) for number in range(300)), encoding="utf-8")
    assert import_("chat.jsonl", "--wait", "--timeout", "1m").exit_code == 0
    with Client(server.target) as client:
        assert len(client.lexical_search(user, "条", page_size=500).items) == 300


def test_wait_polls_until_the_slower_index_has_caught_up(run: Run, script: Scripted) -> None:
    script.will("ImportMessages", ingest_service_pb2.ImportMessagesResponse(created=1))
    script.will("GetIndexStatus", behind(4), behind(2), behind(0))
    assert run("import", "-", "--wait", "--target", script.target, stdin=line(1, "ann")).exit_code == 0
    assert len(script.requests) == 4


def test_long_waits_poll_rarely_and_report_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    now, pauses, output = 0.0, list[float](), io.StringIO()

    def sleep(pause_s: float) -> None:
        nonlocal now
        now += pause_s
        pauses.append(pause_s)

    monkeypatch.setattr("time.sleep", sleep)
    monkeypatch.setattr("time.monotonic", lambda: now)
    with show_indexing_progress(Console(file=output)) as tell:
        assert wait_until_indexed(lambda: behind(0 if now > 60 else 4), 600, tell)
    assert len(pauses) < 40, "the server logs each poll"
    assert pauses[-1] == 2
    assert 3 < output.getvalue().count("Indexing: 4 pending\n") < 7


def test_wait_ends_at_its_timeout(run: Run, script: Scripted) -> None:
    script.will("ImportMessages", ingest_service_pb2.ImportMessagesResponse(created=1))
    script.will("GetIndexStatus", behind(4))
    result = run("import", "-", "--wait", "--timeout", "0s", "--target", script.target, stdin=line(1, "ann"))
    assert result.exit_code == 1
    assert "Indexing did not finish before the timeout" in result.stderr


def test_wait_continues_while_an_index_has_not_read_all_changes(run: Run, script: Scripted) -> None:
    lagging = behind(4)
    lagging.vector.pending = 0
    script.will("ImportMessages", ingest_service_pb2.ImportMessagesResponse(created=1))
    script.will("GetIndexStatus", lagging, lagging, behind(0))
    assert run("import", "-", "--wait", "--target", script.target, stdin=line(1, "ann")).exit_code == 0
    assert len(script.requests) == 4
    script.will("GetIndexStatus", lagging)
    late = run("import", "-", "--wait", "--timeout", "0s", "--target", script.target, stdin=line(1, "ann"))
    assert (late.exit_code, "Indexing did not finish before the timeout" in late.stderr) == (1, True)


def test_interrupted_import_reports_how_to_resume(run: Run, script: Scripted) -> None:
    full = Fault(Reason.ERROR_REASON_STORAGE_UNAVAILABLE, "the message log cannot be written")
    script.will("ImportMessages", ingest_service_pb2.ImportMessagesResponse(created=1_000), full)
    text = "".join(line(number, "ann") for number in range(1_500))
    result = run("import", "-", "--target", script.target, stdin=text)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "Stopped in - after 1,000 messages. Run the import again to resume; no message is stored twice.\n"
        "Error: the message log cannot be written (storage unavailable)\n"
    )


def test_rejects_file_never_overwrites_an_input_file(import_: Import, user: str) -> None:
    text = line(1, user)
    for name in ("chat.jsonl", "chat.jsonl.rejects.jsonl"):
        Path(name).write_text(text, encoding="utf-8")
    assert import_("chat.jsonl", "chat.jsonl.rejects.jsonl").exit_code == 2
    assert Path("chat.jsonl.rejects.jsonl").read_text(encoding="utf-8") == text


@pytest.mark.parametrize("form", ["txt", "jsonl"])
def test_import_output_matches_the_golden_file(
    form: str, run: Run, script: Scripted, golden: Callable[[str, str], None]
) -> None:
    reply = ingest_service_pb2.ImportMessagesResponse(created=1, unchanged=1, replaced=1, rejected=1, write_token="t_1")  # noqa: S106 - not a secret
    reply.rejections.add(index=3, reason="ERROR_REASON_INVALID_FIELD", violations=["messages[3].name: is too long"])
    script.will("ImportMessages", reply)
    for name in ("messages.jsonl", "conversations.json"):
        Path(name).write_bytes((IMPORTS / name).read_bytes())
    more = ["--json"] if form == "jsonl" else []
    shown = run("import", "messages.jsonl", "--target", script.target, *more)
    dry = run("import", "conversations.json", "--user", "ann", "--dry-run", "--target", script.target, *more)
    golden(f"import.{form}", f"{shown.stdout}{dry.stdout}--- stderr\n{shown.stderr}{dry.stderr}")
    golden("rejected-by-the-server.jsonl", Path("messages.jsonl.rejects.jsonl").read_text(encoding="utf-8"))
