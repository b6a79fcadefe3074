"""Tests for the JSON stream parser: every layout of values, and recovery from invalid values."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nomemory.importing.files import HEAD_BYTES, ImportFile
from nomemory.importing.json_stream import read_json_values
from nomemory.importing.record import Record, RejectedRecord

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=6,
)
OBJECTS = st.lists(st.dictionaries(st.text(max_size=5), JSON, min_size=1, max_size=3), min_size=1, max_size=5)


def read(path: Path, content: bytes) -> list[Record | RejectedRecord]:
    path.write_bytes(content)
    source = ImportFile(str(path))
    return list(read_json_values(source))


def values(items: list[Record | RejectedRecord]) -> list[object]:
    return [item.value for item in items if isinstance(item, Record)]


def locations(items: list[Record | RejectedRecord]) -> list[tuple[str, int]]:
    return [(item.location.unit, item.location.number) for item in items]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


@given(objects=OBJECTS, ascii_only=st.booleans())
def test_lines_are_parsed_one_by_one(path: Path, objects: list[object], ascii_only: bool) -> None:  # noqa: FBT001 - drawn
    text = "\n\n".join(json.dumps(value, ensure_ascii=ascii_only) for value in objects)
    items = read(path, text.encode())
    assert values(items) == objects
    assert locations(items) == [("line", 1 + 2 * number) for number in range(len(objects))]


@given(objects=OBJECTS, indent=st.sampled_from([None, 0, 2]))
def test_array_is_parsed_item_by_item(path: Path, objects: list[object], indent: int | None) -> None:
    items = read(path, json.dumps(objects, indent=indent, ensure_ascii=False).encode())
    assert values(items) == objects
    assert locations(items) == [("item", number) for number in range(1, len(objects) + 1)]


@given(objects=OBJECTS, cut=st.integers(1, 200))
def test_truncated_array_yields_complete_items_and_one_rejection(path: Path, objects: list[object], cut: int) -> None:
    text = json.dumps(objects)
    whole = text[: max(1, len(text) - cut)]
    items = read(path, whole.encode())
    assert values(items) == objects[: len(values(items))]
    assert [type(item) for item in items[-1:]] == [RejectedRecord]
    assert sum(isinstance(item, RejectedRecord) for item in items) == 1


def test_an_object_over_many_lines_is_one_value(path: Path) -> None:
    value = {"messages": [{"role": "user", "content": "你好"}] * 3}
    assert values(read(path, json.dumps(value, indent=2).encode())) == [value]


def test_an_object_longer_than_the_head_is_one_value(path: Path) -> None:
    value = {"messages": ["x" * HEAD_BYTES, "y"]}
    assert values(read(path, json.dumps(value, indent=2).encode())) == [value]


def test_invalid_line_is_rejected_and_others_are_parsed(path: Path) -> None:
    items = read(path, b'{"a": 1}\n{"b": 2\n\xff\xfe\n{"c": NaN}\n{"d": 4}')
    assert values(items) == [{"a": 1}, {"d": 4}]
    refused = [item for item in items if isinstance(item, RejectedRecord)]
    assert [item.location.number for item in refused] == [2, 3, 4]
    assert all(item.reasons[0].startswith("is not JSON: ") for item in refused)
    assert [item.original for item in refused] == ['{"b": 2', "\\xff\\xfe", '{"c": NaN}']


def test_invalid_first_line_does_not_affect_other_lines(path: Path) -> None:
    for first in (b'{"a": "cut', b'{"a": 1,', b"hello", b"}"):
        assert values(read(path, first + b'\n{"b": 2}\n{"c": 3}\n')) == [{"b": 2}, {"c": 3}]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'[{"a": 1}, {"b": ', "is not JSON: Expecting value"),
        (b'[{"a": 1}', "the file ends inside the array"),
        (b'[{"a": 1}, oops]', "is neither an object nor an array"),
        (b'[{"a": 1}, {"b": "\xff"}]', "is not JSON: it is not UTF-8"),
        (b'[{"a": 1}, {"b": NaN}]', "is not JSON: NaN is not a JSON number"),
        (b'[{"a": 1}, ' + b"[" * 100_000, "is not JSON: nested too deeply"),
    ],
)
def test_item_error_is_reported_once(path: Path, content: bytes, reason: str) -> None:
    first, last = read(path, content)
    assert isinstance(first, Record)
    assert isinstance(last, RejectedRecord)
    assert last.reasons[0].startswith(reason)


def test_invalid_item_does_not_affect_other_items(path: Path) -> None:
    deep = b"[" * 2_000 + b"]" * 2_000
    items = read(path, b'[1, {"a": "\xff"}, {"b": }, ' + deep + b', {"c": "\\u12"}, x {"d": "]"}]')
    assert values(items) == [{"d": "]"}]
    assert locations(items) == [("item", number) for number in range(1, 8)]


@pytest.mark.parametrize("content", [b"[" * 1_000_000, b'{"a' * 300_000, b'["a",' * 300_000, b'["' + b"\\" * 1_000_000])
def test_parsing_time_is_linear(path: Path, content: bytes) -> None:
    began = time.process_time()
    assert all(isinstance(item, RejectedRecord) for item in read(path, content))
    assert time.process_time() - began < 5


def test_item_text_is_preserved_exactly(path: Path) -> None:
    content = rb'[{"half": "\ud83d", "whole": "\ud83d\ude00", "large": 123456789012345678901234567890, "f": 0.1}]'
    (value,) = values(read(path, content))
    assert value == {"half": "\ud83d", "whole": "😀", "large": 123456789012345678901234567890, "f": 0.1}


@pytest.mark.parametrize("content", [b"", b"\n \n", b"[]", b"\xef\xbb\xbf"])
def test_empty_file_yields_no_items(path: Path, content: bytes) -> None:
    assert read(path, content) == []


@pytest.mark.parametrize("content", [b'\xef\xbb\xbf{"a": 1}\n', b'\xef\xbb\xbf[{"a": 1}]'])
def test_byte_order_mark_is_skipped(path: Path, content: bytes) -> None:
    assert values(read(path, content)) == [{"a": 1}]


def test_zip_archive_is_rejected_with_advice(path: Path) -> None:
    (item,) = read(path, b"PK\x03\x04 and so on")
    assert isinstance(item, RejectedRecord)
    assert "extract it" in item.reasons[0]


@given(content=st.binary(max_size=200))
def test_arbitrary_bytes_are_parsed_or_rejected(path: Path, content: bytes) -> None:
    for start in (b"", b"[", b'{"a": ', b'[{"a": 1},'):
        read(path, start + content)


def test_consumed_bytes_equal_the_file_size(path: Path) -> None:
    content = b'{"a": 1}\n' * 40_000
    path.write_bytes(content)
    source = ImportFile(str(path))
    assert sum(1 for _ in read_json_values(source)) == 40_000
    assert source.consumed == len(source.content) == len(content)
