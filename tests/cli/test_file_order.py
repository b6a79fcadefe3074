"""Tests for the order of imported lines with equal times, in every read and after repeated imports."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cli.command_line import Run
from hypothesis import given
from hypothesis import strategies as st

from nomemory.client.messages import chat_message
from nomemory.client.sync import Client
from nomemory.importing.file_order import FileOrder
from nomemory.importing.record import AcceptedMessage, RejectedRecord, SourceLocation
from running_server import Server

BEGAN = 1_714_552_200
COUNT = 40
CONTENTS = [f"Number {n} of {COUNT}" for n in range(COUNT)]

WriteFile = Callable[[Sequence[str]], Any]


def second(index: int) -> int:
    """Assign ten messages to each second."""
    return BEGAN + index // 10


def json_lines(contents: Sequence[str]) -> list[dict[str, object]]:
    return [{"ts": second(n), "role": "user", "content": text} for n, text in enumerate(contents)]


def openai(contents: Sequence[str]) -> dict[str, object]:
    messages = [{"role": "user", "content": text, "created_at": second(n)} for n, text in enumerate(contents)]
    return {"id": "thread", "messages": messages}


def openai_with_ids(contents: Sequence[str]) -> dict[str, object]:
    messages = [
        {"id": f"msg_{hash_like(n)}", "role": "user", "content": text, "created_at": second(n)}
        for n, text in enumerate(contents)
    ]
    return {"id": "thread", "messages": messages}


def openai_undated(contents: Sequence[str]) -> dict[str, object]:
    return {"id": "thread", "messages": [{"role": "user", "content": text} for text in contents]}


def chatgpt(contents: Sequence[str]) -> list[dict[str, object]]:
    """Return a conversation in which only every tenth message has a time."""
    names = [hash_like(n) for n in range(len(contents))]
    mapping = {
        name: {
            "id": name,
            "parent": names[n - 1] if n else None,
            "children": names[n + 1 : n + 2],
            "message": {
                "id": name,
                "author": {"role": "user"},
                "create_time": second(n) if n % 10 == 0 else None,
                "content": {"content_type": "text", "parts": [contents[n]]},
            },
        }
        for n, name in enumerate(names)
    }
    return [{"conversation_id": "c", "current_node": names[-1], "mapping": mapping}]


def hash_like(number: int) -> str:
    """Return a name whose order is unrelated to the order of the numbers."""
    return f"{(number * 2_654_435_761) % 2**32:08x}"


TIME_FORMATS: dict[str, WriteFile] = {
    form.__name__: form for form in (json_lines, openai, openai_with_ids, openai_undated, chatgpt)
}


@pytest.fixture
def import_(run: Run, vector_server: Server, user: str) -> Callable[[object], dict[str, int]]:
    """Import a value as a file, and return the counts."""

    def invoke(value: object) -> dict[str, int]:
        Path("file.json").write_text(json.dumps(value), encoding="utf-8")
        more = ("--user", user, "--start", "2024-05-01", "--step", "0s", "--json")
        result = run("import", "file.json", *more, "--target", vector_server.target)
        assert result.exit_code == 0, result.output
        summary = json.loads(result.stdout)
        return {key: summary[key] for key in ("created", "unchanged") if summary[key]}

    return invoke


@pytest.mark.parametrize("form", TIME_FORMATS)
def test_every_read_returns_messages_in_file_order(
    form: str, import_: Callable[[object], dict[str, int]], vector_server: Server, user: str
) -> None:
    assert import_(TIME_FORMATS[form](CONTENTS)) == {"created": COUNT}
    with Client(vector_server.target) as client:
        newest_first = list(client.iter_messages(user, page_size=7))
        assert [message.content for message in newest_first] == CONTENTS[::-1]
        middle = newest_first[COUNT // 2]
        around = client.neighbors(user, middle.message_id, before=COUNT, after=COUNT).items
        assert [message.content for message in around] == CONTENTS


@pytest.mark.parametrize("form", TIME_FORMATS)
def test_importing_a_grown_file_adds_only_new_messages(
    form: str, import_: Callable[[object], dict[str, int]], vector_server: Server, user: str
) -> None:
    assert import_(TIME_FORMATS[form](CONTENTS[:25])) == {"created": 25}
    assert import_(TIME_FORMATS[form](CONTENTS[:25])) == {"unchanged": 25}
    assert import_(TIME_FORMATS[form](CONTENTS)) == {"created": COUNT - 25, "unchanged": 25}
    with Client(vector_server.target) as client:
        assert [message.content for message in client.iter_messages(user)] == CONTENTS[::-1]


def test_explicit_message_ids_are_kept(
    import_: Callable[[object], dict[str, int]], vector_server: Server, user: str
) -> None:
    named = [line | {"message_id": hash_like(n)} for n, line in enumerate(json_lines(CONTENTS))]
    import_(named)
    with Client(vector_server.target) as client:
        ids_by_content = {message.content: message.message_id for message in client.iter_messages(user)}
    assert ids_by_content == {text: hash_like(n) for n, text in enumerate(CONTENTS)}


def test_identical_lines_are_stored_as_one_message(import_: Callable[[object], dict[str, int]]) -> None:
    lines = json_lines(CONTENTS[:10])
    assert import_(lines + lines[::-1]) == {"created": 10, "unchanged": 10}


def accepted(message_id: str, ts: int, user: str, *, keeps_id: bool = False) -> AcceptedMessage:
    moment = datetime.fromtimestamp(BEGAN + ts, UTC)
    message = chat_message(user_id=user, message_id=message_id, ts=moment, role="user", content="x")
    return AcceptedMessage(SourceLocation("line", 1), "", message, keeps_id=keeps_id)


IDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=128)
ITEMS = st.lists(st.builds(accepted, IDS, st.integers(0, 2), st.sampled_from(["ann", "bob"])), max_size=30)


def placed(items: Sequence[AcceptedMessage]) -> list[AcceptedMessage]:
    order = FileOrder()
    return [item for item in map(order.assign_ordered_id, items) if isinstance(item, AcceptedMessage)]


@given(ITEMS)
def test_ids_of_one_user_and_time_are_unique_and_increasing(items: list[AcceptedMessage]) -> None:
    given_ids: dict[tuple[str, int], dict[str, str]] = {}
    for before, after in zip(items, placed(items), strict=True):
        assert len(after.message.message_id) <= 128
        assert replace(after, message=before.message) == before
        last_ids = given_ids.setdefault((before.message.user_id, before.message.ts.seconds), {})
        assert last_ids.setdefault(before.message.message_id, after.message.message_id) == after.message.message_id
    for last_ids in given_ids.values():
        ids = list(last_ids.values())
        assert ids == sorted(set(ids), key=str.encode)


@given(ITEMS, ITEMS)
def test_later_messages_do_not_change_earlier_ids(items: list[AcceptedMessage], more: list[AcceptedMessage]) -> None:
    assert placed(items + more)[: len(items)] == placed(items)


@given(ITEMS)
def test_ordered_or_explicit_ids_are_unchanged(items: list[AcceptedMessage]) -> None:
    kept = [replace(item, keeps_id=True) for item in items]
    assert placed(kept) == kept
    alone = [accepted(f"i{n:03}", 0, "ann") for n in range(30)]
    assert placed(alone) == alone


def test_rejected_items_are_passed_through() -> None:
    refused = RejectedRecord(SourceLocation("line", 1), "", ("is not JSON",))
    assert FileOrder().assign_ordered_id(refused) is refused
