"""Tests for the transcripts of coding agents. The lines are those of the agents without their long parts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from importing.test_formats import ANN, START, accepted, ids, parsed, refusals

from nomemory.importing.files import ImportFile
from nomemory.importing.formats import detect_format, read_records
from nomemory.importing.record import ImportDefaults, SkippedRecord
from nomemory.importing.secret_redaction import REDACTED, redact_secrets
from nomemory.importing.transcripts import prepare_content

CURSOR = replace(ANN, start=START, file="k1")


@pytest.mark.parametrize(
    ("name", "expected"),
    [("claude_code.jsonl", "claude-code"), ("codex.jsonl", "codex"), ("cursor.jsonl", "cursor")],
)
def test_format_is_detected(name: str, expected: str) -> None:
    chosen, _ = detect_format(read_records(ImportFile(f"tests/importing/files/{name}"), None), ImportDefaults())
    assert chosen.name == expected


def test_claude_code_import_reads_messages_and_tool_results() -> None:
    items = parsed("claude_code.jsonl", ANN)
    assert [(entry["role"], entry.get("name"), entry["content"]) for entry in accepted(items)] == [
        ("user", None, "Which port did we choose?"),
        ("assistant", None, "I look at the settings."),
        ("tool", "Bash", f"PORT=7710\nDB_PASSWORD={REDACTED}"),
        ("assistant", None, "端口是 7710。"),
    ]
    first = accepted(items)[0]
    assert (first["ts"], first["conversation_id"]) == ("2026-03-02T09:00:01.313000Z", "s1")
    assert first["metadata"] == {"agent": "claude-code", "project": "harbour"}
    assert refusals(items) == [(12, "", ("timestamp: is required",))]
    assert sum(isinstance(item, SkippedRecord) for item in items) == 7


def test_codex_import_omits_messages_injected_as_user() -> None:
    assert [(item["role"], item.get("name"), item["content"]) for item in accepted(parsed("codex.jsonl", ANN))] == [
        ("user", None, "Which port did we choose?"),
        ("tool", "exec_command", "Process exited with code 0\nOutput:\nport=7710\n"),
        ("assistant", None, "Port 7710."),
    ]


def test_cursor_import_requires_a_time_and_names_the_session_after_the_file() -> None:
    assert [
        (item["role"], item["content"], item["ts"], item["conversation_id"])
        for item in accepted(parsed("cursor.jsonl", CURSOR))
    ] == [
        ("user", "Which port did we choose?", "2024-05-01T08:00:00Z", "k1"),
        ("assistant", "Port 7710.", "2024-05-01T08:00:01Z", "k1"),
    ]
    reasons = {reason for _, _, item_reasons in refusals(parsed("cursor.jsonl", ANN)) for reason in item_reasons}
    assert reasons == {"ts: the transcript has no times; set the time of the first message with --start"}


@pytest.mark.parametrize("name", ["claude_code.jsonl", "codex.jsonl", "cursor.jsonl"])
def test_derived_ids_are_deterministic_and_unique(name: str) -> None:
    message_ids = ids(parsed(name, CURSOR))
    assert message_ids == ids(parsed(name, CURSOR))
    assert len(set(message_ids)) == len(message_ids) >= 2


def test_long_tool_output_is_truncated_in_the_middle_and_user_text_is_not() -> None:
    long = "".join(f"line {number}\n" for number in range(1000))
    cut = prepare_content(long, "tool")
    assert cut.startswith("line 0\n")
    assert cut.endswith("line 999")
    assert "characters left out]" in cut
    assert len(cut) < 2_100
    assert prepare_content(long, "user") == long
    assert len(prepare_content("字" * 100_000, "user").encode()) < 262_144


SECRETS = (
    "AKIA" + "IOSFODNN7EXAMPLE",
    "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789",
    "glpat-" + "aB3dEfGh1jKlMn0pQrSt",
    "sk-ant-api03-" + "aB3dEfGh1jKlMn0pQrStUvWx-_yz",
    "rk_live_" + "51HabCdEfGhIjKlMnOpQrStUv",
    "xoxb-" + "123456789012-1234567890123-AbCdEfGh1jKlMnOpQrStUvWx",
    "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-def_123",
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\n-----END OPENSSH PRIVATE KEY-----",
)


@pytest.mark.parametrize("secret", SECRETS)
def test_known_secret_formats_are_redacted_in_any_position(secret: str) -> None:
    for around in ("{}", "before {} after", "KEY='{}'", "({})", "密钥{}。", '{{"a": "{}"}}'):
        shown = redact_secrets(around.format(secret))
        assert secret not in shown
        assert REDACTED in shown


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("export DB_PASSWORD=correcthorse", "correcthorse"),
        ('"client_secret": "battery staple"', "battery staple"),
        ("password: hunter2", "hunter2"),
        ("postgres://ann:pa55@db.local/app", "pa55"),
        ("Authorization: Basic YW5uOnBhc3M=", "YW5uOnBhc3M="),
        ("curl -H 'authorization: Bearer abc.def'", "abc.def"),
        ("-H 'X-Api-Key: 12345abcdef'", "12345abcdef"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIcut", "MIIcut"),
    ],
)
def test_secret_values_are_redacted_and_their_names_kept(text: str, secret: str) -> None:
    shown = redact_secrets(text)
    assert secret not in shown
    assert REDACTED in shown
    assert shown.split(REDACTED)[0] in text


@pytest.mark.parametrize(
    "text",
    [
        "The token is checked in auth.py; the password comes from the vault.",
        "test_handlesIPv4AddressesCorrectly[a-b]",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "token = next(tokens)",
        "max_tokens=2000, secret_name: str",
        "d9428888-122b-11e1-b85c-61cd3cbb3210",
        "http://127.0.0.1:7710/inspect/",
        "api_key=os.environ['KEY']",
    ],
)
def test_text_that_resembles_a_secret_is_unchanged(text: str) -> None:
    assert redact_secrets(text) == text


@given(st.text(st.characters(codec="utf-8"), max_size=300))
def test_redaction_is_idempotent_and_changes_only_secrets(text: str) -> None:
    shown = redact_secrets(text)
    assert redact_secrets(shown) == shown
    assert REDACTED in shown or shown == text
