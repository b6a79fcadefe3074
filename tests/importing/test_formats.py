"""Tests for the parsing of each import format."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nomemory.cli.json_lines import build_message_record
from nomemory.client.messages import chat_message
from nomemory.importing.files import ImportFile
from nomemory.importing.formats import FORMATS, detect_format, read_records
from nomemory.importing.record import (
    AcceptedMessage,
    ImportDefaults,
    ParseResult,
    Record,
    RejectedRecord,
    SkippedRecord,
    SourceLocation,
)

IMPORTS = Path(__file__).parent / "files"
NOBODY = ImportDefaults()
ANN = ImportDefaults(user="ann")
START = datetime(2024, 5, 1, 8, tzinfo=UTC)


def parsed(name: str, defaults: ImportDefaults = NOBODY) -> list[ParseResult]:
    def items() -> Iterator[ParseResult]:
        source = ImportFile(str(IMPORTS / name))
        chosen, recognized = detect_format(read_records(source, None), defaults)
        for item in recognized:
            yield from [item] if isinstance(item, RejectedRecord) else chosen.parse(item)

    return list(items())


def accepted(items: list[ParseResult]) -> list[dict[str, object]]:
    return [build_message_record(item.message) for item in items if isinstance(item, AcceptedMessage)]


def refusals(items: list[ParseResult]) -> list[tuple[int, str, tuple[str, ...]]]:
    return [(i.location.number, i.location.element, i.reasons) for i in items if isinstance(i, RejectedRecord)]


def ids(items: list[ParseResult]) -> list[str]:
    return [item.message.message_id for item in items if isinstance(item, AcceptedMessage)]


def archived(path: Path, **members: str) -> str:
    """Create an archive as services deliver it: with pictures, a web page, and the messages."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("file-1.png", b"\x89PNG")
        archive.writestr("shared_conversations.json", "[]")
        for name, text in members.items():
            archive.writestr(name, text)
    return str(path)


@pytest.mark.parametrize(
    ("name", "member"),
    [
        ("conversations.json", "conversations.json"),
        ("claude.json", "data-2026-01-05/conversations.json"),
        ("_chat.txt", "_chat.txt"),
        ("WhatsApp Chat with Ann.txt", "WhatsApp Chat with Ann.txt"),
    ],
)
def test_export_is_read_from_a_zip_archive(tmp_path: Path, name: str, member: str) -> None:
    in_shanghai = ImportDefaults(user="ann", zone=ZoneInfo("Asia/Shanghai"))
    stem = Path(name).stem
    archive = archived(tmp_path / f"{stem}.zip", **{member: (IMPORTS / name).read_text(encoding="utf-8")})
    assert accepted(parsed(archive, in_shanghai)) == accepted(parsed(name, in_shanghai)) != []
    assert sorted(tmp_path.iterdir()) == [Path(archive)], "the archive is not extracted"


def test_export_split_into_files_is_read_in_order(tmp_path: Path) -> None:
    first, second, third = json.loads((IMPORTS / "conversations.json").read_text(encoding="utf-8"))[:3]
    parts = {
        "conversations-001.json": json.dumps([second, third]),
        "conversations-000.json": json.dumps([first]) + "\n",
        "../../conversations-002.json": "[] ?",
    }
    parsed_items = parsed(archived(tmp_path / "export.zip", **parts), ANN)
    assert accepted(parsed_items) == accepted(parsed("conversations.json", ANN))
    assert refusals(parsed_items)[-1][2] == ("is neither an object nor an array",)


def test_archive_without_messages_or_over_the_size_limit_is_rejected(tmp_path: Path) -> None:
    bomb = archived(tmp_path / "bomb.zip", **{"conversations.json": "[" + " " * (1 << 24) + "]"})
    harmless = archived(tmp_path / "other.zip", **{"notes.txt": "hi"})
    damaged = Path(archived(tmp_path / "damaged.zip", **{"conversations.json": json.dumps(["x" * 999])}))
    raw = bytearray(damaged.read_bytes())
    raw[raw.index(b"conversations.json", raw.index(b"shared") + 30) + 20] ^= 0xFF
    damaged.write_bytes(raw)
    torn = tmp_path / "torn.zip"
    torn.write_bytes(raw[:100])
    compressed = tmp_path / "compressed.zip"
    with zipfile.ZipFile(compressed, "w", zipfile.ZIP_LZMA) as lzma_archive:
        lzma_archive.writestr("conversations.json", json.dumps(["x" * 999]))
    raw = bytearray(compressed.read_bytes())
    raw[raw.index(b"conversations.json") + 32] ^= 0xFF
    compressed.write_bytes(raw)
    for archive in (bomb, harmless, str(damaged), str(torn), str(compressed)):
        assert refusals(parsed(archive, ANN)) == [
            (1, "", ("is a zip archive without readable conversations; extract it first",))
        ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("messages.jsonl", "jsonl"),
        ("broken.jsonl", "jsonl"),
        ("openai.json", "openai"),
        ("openai.jsonl", "openai"),
        ("loose.json", "openai"),
        ("conversations.json", "chatgpt"),
    ],
)
def test_format_is_detected(name: str, expected: str) -> None:
    source = ImportFile(str(IMPORTS / name))
    items = list(read_records(source, None))
    chosen, again = detect_format(iter(items), ImportDefaults())
    assert chosen.name == expected
    assert list(again) == items


def test_unrecognized_format_error_names_the_missing_fields() -> None:
    chosen, _ = detect_format(iter([Record(SourceLocation("line", 1), {"text": "hi"}, "")]), ImportDefaults())
    assert chosen.name == "jsonl"
    (refused,) = chosen.parse(Record(SourceLocation("line", 1), {"text": "hi"}, ""))
    assert isinstance(refused, RejectedRecord)
    assert set(refused.reasons) == {
        "user_id: is required",
        "ts: is required",
        "content: is required",
        "role: must be one of user, assistant, system, developer, tool, function",
    }


def test_native_format_is_parsed() -> None:
    first, second, third, fourth = accepted(parsed("messages.jsonl"))
    assert first == {
        "user_id": "ann",
        "message_id": "m1",
        "ts": "2024-05-01T08:30:00Z",
        "role": "user",
        "content": "我不吃辣，火锅只能点清汤。",
        "conversation_id": "dinner",
        "metadata": {"app": "phone", "turn": "1"},
    }
    assert (second["ts"], second["name"]) == ("2024-05-01T08:30:20.123456Z", "小忆")
    assert (third["ts"], third["role"]) == ("2024-05-01T08:31:00Z", "user")
    assert (fourth["ts"], fourth["role"]) == ("2024-05-01T08:31:00.500000Z", "system")
    assert fourth["metadata"] == {"original_role": "developer"}


def test_unsupported_field_is_reported() -> None:
    ignored = [item.ignored for item in parsed("messages.jsonl") if isinstance(item, AcceptedMessage)]
    assert ignored == [(), (), (), ("score",)]


def test_user_option_overrides_the_users_in_the_file() -> None:
    assert {record["user_id"] for record in accepted(parsed("messages.jsonl", ImportDefaults(user="carl")))} == {"carl"}


def test_every_error_of_an_invalid_line_is_reported() -> None:
    items = parsed("broken.jsonl")
    assert ids(items) == ["b1", "b5"]
    roles = "role: must be one of user, assistant, system, developer, tool, function"
    zone = "ts: has no time zone: append Z for UTC, or an offset such as +08:00"
    reasons_by_line = {number: reasons for number, _, reasons in refusals(items)}
    assert set(reasons_by_line) == {2, 3, 4, 5, 6, 7}
    assert all(reasons_by_line[number][0].startswith("is not JSON") for number in (2, 3))
    assert reasons_by_line[7] == ("a text contains an unpaired surrogate, which is not valid Unicode",)
    assert reasons_by_line[4] == ("is not a JSON object",)
    assert reasons_by_line[5] == (zone, "content: is required", roles)
    assert reasons_by_line[6] == (
        "user_id: is required",
        "ts: must be an RFC 3339 time such as 2024-05-01T08:30:00Z",
        "message_id: must be a string",
        "metadata: must be an object",
    )


def test_openai_messages_are_parsed() -> None:
    records_ = accepted(parsed("openai.json", ANN))
    assert [record["role"] for record in records_] == ["system", "user", "tool", "assistant", "assistant"]
    assert {record["conversation_id"] for record in records_} == {"conv_42"}
    developer, user, tool, answer, refusal = records_
    assert developer["metadata"] == {"original_role": "developer"}
    assert user["content"] == "这道菜辣吗？\nI cannot eat chilli."
    assert (user["name"], user["metadata"]) == ("安", {"non_text_parts": "image_url"})
    assert tool["metadata"] == {"tool_call_id": "call_1"}
    assert (answer["message_id"], answer["ts"]) == ("msg_9", "2024-05-01T08:31:03Z")
    assert answer["content"] == "It is hot: choose another."
    assert refusal["content"] == "I cannot help with that."


def test_openai_messages_without_content_or_time_are_rejected() -> None:
    assert refusals(parsed("openai.json", ANN)) == [
        (1, "message 3", ("content: is empty; the message only has tool_calls",)),
        (1, "message 7", ("created_at: is missing; set the time of the first message with --start",)),
        (1, "message 8", ("content: is required",)),
        (1, "message 9", ("is not a JSON object",)),
    ]


def test_messages_without_times_are_spaced_from_a_start() -> None:
    messages = accepted(parsed("openai.jsonl", ImportDefaults("ann", START, timedelta(minutes=1))))
    assert [record["ts"] for record in messages] == [f"2024-05-01T08:0{minute}:00Z" for minute in range(5)]
    first, second = messages[:3], messages[3:]
    assert len({record["conversation_id"] for record in first}) == 1
    assert {record["conversation_id"] for record in first}.isdisjoint(record["conversation_id"] for record in second)


def test_repeated_content_is_imported_as_two_messages() -> None:
    message_ids = ids(parsed("loose.json", ImportDefaults("ann", START)))
    assert len(set(message_ids)) == 3
    assert len(set(ids(parsed("loose.json", ImportDefaults("ann", START, timedelta(0)))))) == 3


def test_formats_without_users_require_the_user_option() -> None:
    for name in ("openai.json", "loose.json", "conversations.json"):
        reasons = {
            reason
            for _, _, item_reasons in refusals(parsed(name, ImportDefaults(start=START)))
            for reason in item_reasons
        }
        assert reasons == {"user_id: this format has no user ids; set one with --user"}


def test_chatgpt_import_uses_the_current_branch() -> None:
    records_ = accepted(parsed("conversations.json", ANN))
    assert [record["message_id"] for record in records_] == ["n2", "n5", "n6"]
    user, tool, answer = records_
    title = {"conversation_title": "重庆旅行"}
    assert user["metadata"] == title | {"non_text_parts": "image_asset_pointer"}
    assert (user["ts"], user["conversation_id"]) == ("2024-05-01T08:31:00.250000Z", "6f1c-01")
    assert (tool["role"], tool["name"], tool["ts"]) == ("tool", "web.search", "2024-05-01T08:31:00.250000Z")
    assert tool["metadata"] == title | {"time_from": "the message before"}
    assert answer["content"] == "是的，\nthat is Chongqing."


def test_chatgpt_import_skips_hidden_and_rejects_incomplete_messages() -> None:
    items = parsed("conversations.json", ANN)
    assert sum(isinstance(item, SkippedRecord) for item in items) == 4
    assert refusals(items) == [
        (
            2,
            "6f1c-02, message b",
            ("create_time: is required", "role: must be one of user, assistant, system, developer, tool, function"),
        ),
        (2, "6f1c-02, message a", ("create_time: is required",)),
        (3, "", ("mapping: is required",)),
    ]


@pytest.mark.parametrize("field", [{"recipient": []}, {"content": {"content_type": {}}}])
def test_chatgpt_fields_of_the_wrong_type_do_not_stop_the_import(tmp_path: Path, field: dict[str, object]) -> None:
    conversations = json.loads((IMPORTS / "conversations.json").read_text(encoding="utf-8"))
    nodes = [node for conversation in conversations[:1] for node in conversation["mapping"].values()]
    next(node["message"] for node in nodes if node.get("message")).update(field)
    changed = tmp_path / "conversations.json"
    changed.write_text(json.dumps(conversations), encoding="utf-8")
    assert accepted(parsed(str(changed), ANN))


@pytest.mark.parametrize("name", ["messages.jsonl", "openai.json", "loose.json", "conversations.json"])
def test_derived_ids_are_deterministic(name: str) -> None:
    defaults = ImportDefaults("ann", START)
    assert ids(parsed(name, defaults)) == ids(parsed(name, defaults))
    assert all(ids(parsed(name, defaults)))


def test_derived_ids_depend_on_the_user() -> None:
    ann, bo = (set(ids(parsed("openai.jsonl", ImportDefaults(user, START)))) for user in ("ann", "bo"))
    assert ann.isdisjoint(bo)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.one_of(
    st.sampled_from(["user_id", "message_id", "ts", "role", "content", "name", "conversation_id", "metadata"]),
    st.sampled_from(["messages", "created_at", "tool_calls", "type", "text"]),
    st.sampled_from(["conversation", "sample_id", "session_1", "session_1_date_time", "speaker", "dia_id"]),
    st.sampled_from(
        ["timestamp", "sessionId", "uuid", "message", "payload", "cwd", "call_id", "tool_use_id", "isMeta"]
    ),
    st.sampled_from(["mapping", "current_node", "create_time", "id", "title", "author", "parts", "parent", "children"]),
)
NEARLY = st.recursive(
    JSON
    | st.sampled_from(
        [
            "user",
            "assistant",
            "response_item",
            "session_meta",
            "tool_result",
            "function_call_output",
            "2024-05-01T08:00:00Z",
            "1:56 pm on 8 May, 2023",
        ]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=6),
    max_leaves=20,
)


@given(value=NEARLY, user=st.sampled_from(["", "ann"]), start=st.sampled_from([None, START]))
def test_arbitrary_value_is_accepted_or_rejected(value: object, user: str, start: datetime | None) -> None:
    defaults = ImportDefaults(user, start)
    for name, create_format in FORMATS.items():
        for item in create_format(defaults).parse(Record(SourceLocation("item", 1), value, value)):
            assert isinstance(item, AcceptedMessage | RejectedRecord | SkippedRecord), name
            if isinstance(item, AcceptedMessage):
                assert item.message.message_id, name
                assert item.message.user_id, name
                assert item.message.HasField("ts"), name
            if isinstance(item, RejectedRecord):
                assert item.reasons, name


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.datetimes(timezones=st.just(UTC)))
def test_import_reads_the_output_of_list(content: str, ts: datetime) -> None:
    message = chat_message(user_id="ann", message_id="m", ts=ts, role="assistant", content=content, metadata={"k": "v"})
    line = json.loads(json.dumps(build_message_record(message)))
    (item,) = FORMATS["jsonl"](ImportDefaults()).parse(Record(SourceLocation("line", 1), line, ""))
    assert isinstance(item, AcceptedMessage)
    assert item.message == message
    assert not item.ignored
