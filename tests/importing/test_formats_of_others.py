"""Tests for the exports of Claude, Zep, Letta, mem0 and WhatsApp.

The files have the structure of Claude's data export, Zep's messages of a thread (and of a session in its second
version), Letta's agent file, mem0's `get_all`, and "Export chat" of WhatsApp on Android and iOS.
"""

from __future__ import annotations

import time
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from importing.test_formats import ANN, NOBODY, accepted, parsed, refusals

from nomemory.importing.files import ImportFile
from nomemory.importing.formats import detect_format, read_records
from nomemory.importing.letta import LettaImporter
from nomemory.importing.record import ImportDefaults, Record, SkippedRecord, SourceLocation

SHANGHAI = ImportDefaults(user="ann", zone=ZoneInfo("Asia/Shanghai"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("claude.json", "claude"),
        ("zep.json", "zep"),
        ("zep_sessions.jsonl", "zep"),
        ("agent.af", "letta"),
        ("mem0.json", "mem0"),
        ("WhatsApp Chat with Ann.txt", "whatsapp"),
        ("_chat.txt", "whatsapp"),
    ],
)
def test_format_is_detected(name: str, expected: str) -> None:
    source = ImportFile(f"tests/importing/files/{name}")
    chosen, _ = detect_format(read_records(source, None), NOBODY)
    assert chosen.name == expected


def test_claude_import_reads_messages_and_reports_other_content() -> None:
    items = parsed("claude.json", ANN)
    first, second = accepted(items)
    assert first == {
        "user_id": "ann",
        "message_id": "m-1",
        "ts": "2024-05-01T08:31:00.500000Z",
        "role": "user",
        "content": "这张照片是重庆吗？",
        "conversation_id": "c-1",
        "metadata": {"conversation_title": "重庆旅行", "non_text_parts": "file"},
    }
    assert (second["role"], second["content"]) == ("assistant", "是的。")
    assert second["metadata"] == {"conversation_title": "重庆旅行", "non_text_parts": "thinking, tool_use"}
    assert sum(isinstance(item, SkippedRecord) for item in items) == 1
    assert refusals(items) == [(1, "c-1, message 4", ("created_at: is required",))]


def test_zep_thread_messages_are_imported() -> None:
    items = parsed("zep.json")
    first, second = accepted(items)
    assert (first["user_id"], first["conversation_id"], first["name"]) == ("ann", "t-1", "Ann")
    assert (first["message_id"], first["metadata"]) == ("z-1", {"source": "app"})
    assert (second["role"], second["content"]) == ("assistant", "Noted.")
    ((number, location, reasons),) = refusals(items)
    assert (number, location) == (1, "t-1, message 3")
    assert reasons[0].startswith("role: must be one of")


def test_zep_v2_sender_name_is_separate_from_the_role() -> None:
    (only,) = accepted(parsed("zep_sessions.jsonl", ANN))
    assert (only["role"], only["name"], only["conversation_id"]) == ("user", "Ann", "s-1")


def test_letta_import_reads_only_user_and_assistant_messages() -> None:
    items = parsed("agent.af", ANN)
    assert [(entry["role"], entry["content"]) for entry in accepted(items)] == [
        ("user", "I sail on Sundays"),
        ("assistant", "Fair winds!"),
        ("user", "And you?"),
    ]
    assert {entry["conversation_id"] for entry in accepted(items)} == {"agent-0"}
    assert sum(isinstance(item, SkippedRecord) for item in items) == 3
    assert [reasons for _, _, reasons in refusals(items)] == [("created_at: is required",)]


def test_mem0_memories_are_not_attributed_to_the_user() -> None:
    items = parsed("mem0.json")
    (only,) = accepted(items)
    assert (only["user_id"], only["role"], only["name"]) == ("dev", "tool", "mem0")
    assert (only["message_id"], only["metadata"]) == ("2f0c", {"type": "professional"})
    assert [reasons for _, _, reasons in refusals(items)] == [("created_at: is required",)]


def test_whatsapp_multi_line_messages_are_parsed() -> None:
    items = parsed("WhatsApp Chat with Ann.txt", SHANGHAI)
    first, second = accepted(items)
    assert first["content"] == "Merry Christmas!\nAnd a happy new year: 2024"
    assert (first["name"], first["ts"]) == ("Ann", "2023-12-24T12:05:00Z")
    assert (second["name"], second["ts"]) == ("李雷", "2023-12-30T16:10:00Z")
    assert {entry["conversation_id"] for entry in accepted(items)} == {"WhatsApp Chat with Ann"}
    assert sum(isinstance(item, SkippedRecord) for item in items) == 2


def test_whatsapp_system_messages_are_skipped(tmp_path: Path) -> None:
    texts = [
        "This message was deleted",
        "Eliminaste este mensaje.",
        "此消息已删除",
        "<Medien ausgeschlossen>",
        "\u200eHai eliminato questo messaggio.",
        "\u200eIMG-1.jpg (file attached)",
        "I said: this message was deleted",
        "I moved to Basel. \u200e<This message was edited>",
        "1 < 2 > 0",
    ]
    chat = tmp_path / "chat.txt"
    chat.write_text("".join(f"24/12/2023, 20:05 - Ann: {text}\n" for text in texts), encoding="utf-8")
    contents = [item["content"] for item in accepted(parsed(str(chat), SHANGHAI))]
    assert contents == ["I said: this message was deleted", "I moved to Basel.", "1 < 2 > 0"]


def test_whatsapp_chat_from_a_chinese_phone_is_parsed() -> None:
    items = parsed("_chat.txt", SHANGHAI)
    assert [(item["name"], item["content"], item["ts"]) for item in accepted(items)] == [
        ("李雷", "我不吃辣", "2024-05-01T12:30:09Z"),
        ("妈妈", "好", "2024-05-02T01:00:00Z"),
    ]


@pytest.mark.parametrize(
    ("defaults", "complaint"),
    [
        (ANN, "set one with --time-zone"),
        (SHANGHAI, "order of day and month"),
        (ImportDefaults(zone=ZoneInfo("Asia/Shanghai")), "set one with --user"),
    ],
)
def test_ambiguous_times_and_users_are_rejected(defaults: ImportDefaults, complaint: str) -> None:
    ((_, _, reasons),) = refusals(parsed("unclear.txt", defaults))
    assert any(complaint in reason for reason in reasons)


@pytest.mark.parametrize("name", ["claude.json", "agent.af"])
def test_formats_without_users_require_the_user_option(name: str) -> None:
    assert any("--user" in reason for _, _, reasons in refusals(parsed(name)) for reason in reasons)


def test_crafted_chat_line_does_not_slow_the_import(tmp_path: Path) -> None:
    lines = ["24/12/2023, 8:05 pm - Ann: hello", "1/1/11" + " " * 60_000 + "x", "25/12/2023, 8:05 pm - Ann: bye"]
    chat = tmp_path / "chat.txt"
    chat.write_text("\n".join(lines), encoding="utf-8")
    began = time.process_time()
    first, second = accepted(parsed(str(chat), SHANGHAI))
    assert time.process_time() - began < 5
    assert str(first["content"]).startswith("hello\n1/1/11")
    assert second["content"] == "bye"


def test_invalid_utf_8_is_rejected_and_not_altered(tmp_path: Path) -> None:
    chat = tmp_path / "chat.txt"
    lines = ["24/12/2023, 8:05 pm - Ann: caf\u00e9", "25/12/2023, 8:05 pm - Ann: \u200ea\u00a0b"]
    chat.write_bytes(lines[0].encode("latin-1") + b"\n" + f"{lines[1]}\n26/12/2023, 1:00 am - Ann: a\u00a0b".encode())
    items = parsed(str(chat), SHANGHAI)
    assert [reasons for _, _, reasons in refusals(items)] == [("is not UTF-8",)]
    assert [item["content"] for item in accepted(items)] == ["a\u00a0b"]


def letta(*contents: str) -> dict[str, object]:
    messages = [{"role": "user", "content": content, "created_at": "2025-01-01T00:00:00Z"} for content in contents]
    return {"agents": None, "agent_type": "memgpt_agent", "messages": messages}


def test_letta_import_keeps_json_content_and_skips_system_events() -> None:
    content = '{"type": "object", "message": "my own json"}'
    record = Record(SourceLocation("item", 1), letta(content, '{"type": "login"}'), "")
    kept = accepted(list(LettaImporter(ANN).parse(record)))
    assert [item["content"] for item in kept] == [content]


def test_letta_import_keeps_json_content_with_a_list_as_type() -> None:
    content = '{"type": ["string", "null"]}'
    kept = accepted(list(LettaImporter(ANN).parse(Record(SourceLocation("item", 1), letta(content), ""))))
    assert [item["content"] for item in kept] == [content]


def test_whatsapp_message_with_many_lines_is_grouped_in_linear_time(tmp_path: Path) -> None:
    chat = tmp_path / "WhatsApp Chat with Ann.txt"
    chat.write_text("12/31/23, 9:15 PM - Ann: a list" + "\n" * 1_000_000 + "\n12/31/23, 9:16 PM - Ben: ok\n", "utf-8")
    assert len(list(read_records(ImportFile(str(chat)), None))) == 2
