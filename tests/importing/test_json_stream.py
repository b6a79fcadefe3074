"""Whatever way JSON values stand in a file, each is read, and what is broken costs as little as can be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nomemory.importing import json_stream
from nomemory.importing.draft import Record, Refused
from nomemory.importing.files import HEAD_BYTES, Source
from nomemory.importing.json_stream import records

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.lists(st.dictionaries(st.text(max_size=5), JSON, min_size=1, max_size=4), min_size=1, max_size=8)
SAME_DIRECTORY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def read(path: Path, content: bytes) -> list[Record | Refused]:
    path.write_bytes(content)
    with Source(str(path)) as source:
        return list(records(source))


def values(items: list[Record | Refused]) -> list[object]:
    return [item.value for item in items if isinstance(item, Record)]


def places(items: list[Record | Refused]) -> list[tuple[str, int]]:
    return [(item.place.unit, item.place.number) for item in items]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


@SAME_DIRECTORY
@given(objects=OBJECTS, ascii_only=st.booleans())
def test_lines_are_read_one_by_one(path: Path, objects: list[object], ascii_only: bool) -> None:  # noqa: FBT001 - drawn
    text = "\n\n".join(json.dumps(value, ensure_ascii=ascii_only) for value in objects)
    items = read(path, text.encode())
    assert values(items) == objects
    assert places(items) == [("line", 1 + 2 * number) for number in range(len(objects))]


@SAME_DIRECTORY
@given(objects=OBJECTS, indent=st.sampled_from([None, 0, 2]), chunk=st.integers(1, 50))
def test_an_array_is_read_item_by_item_wherever_the_chunks_end(
    path: Path, objects: list[object], indent: int | None, chunk: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_stream, "_CHUNK", chunk)
        items = read(path, json.dumps(objects, indent=indent, ensure_ascii=False).encode())
    assert values(items) == objects
    assert places(items) == [("item", number) for number in range(1, len(objects) + 1)]


@SAME_DIRECTORY
@given(objects=OBJECTS, cut=st.integers(1, 200))
def test_a_truncated_array_gives_its_whole_items_and_one_refusal(path: Path, objects: list[object], cut: int) -> None:
    text = json.dumps(objects)
    whole = text[: max(1, len(text) - cut)]
    items = read(path, whole.encode())
    assert values(items) == objects[: len(values(items))]
    assert [type(item) for item in items[-1:]] == [Refused]
    assert sum(isinstance(item, Refused) for item in items) == 1


def test_an_object_over_many_lines_is_one_value(path: Path) -> None:
    value = {"messages": [{"role": "user", "content": "你好"}] * 3}
    assert values(read(path, json.dumps(value, indent=2).encode())) == [value]


def test_an_object_longer_than_the_head_is_one_value(path: Path) -> None:
    value = {"messages": ["x" * HEAD_BYTES, "y"]}
    assert values(read(path, json.dumps(value, indent=2).encode())) == [value]


def test_a_bad_line_is_refused_and_the_others_are_read(path: Path) -> None:
    items = read(path, b'{"a": 1}\n{"b": 2\n\xff\xfe\n{"c": NaN}\n{"d": 4}')
    assert values(items) == [{"a": 1}, {"d": 4}]
    refused = [item for item in items if isinstance(item, Refused)]
    assert [item.place.number for item in refused] == [2, 3, 4]
    assert all(item.reasons[0].startswith("is not JSON: ") for item in refused)
    assert [item.original for item in refused] == ['{"b": 2', "\\xff\\xfe", '{"c": NaN}']


def test_a_bad_first_line_does_not_take_the_others_with_it(path: Path) -> None:
    for first in (b'{"a": "cut', b'{"a": 1,', b"hello", b"}"):
        assert values(read(path, first + b'\n{"b": 2}\n{"c": 3}\n')) == [{"b": 2}, {"c": 3}]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'[{"a": 1}, {"b": ', "is not JSON: Expecting value; what follows was not read"),
        (b'[{"a": 1}', "is not JSON: the text ends inside of the array; what follows was not read"),
        (b'[{"a": 1}, oops]', "is not JSON: Expecting value; what follows was not read"),
        (b'[{"a": 1}, {"b": "\xff"}]', "is not UTF-8; what follows was not read"),
        (b'[{"a": 1}, ' + b"[" * 100_000, "is not JSON: nested too deeply; what follows was not read"),
    ],
)
def test_what_is_wrong_with_an_array_is_said_once(path: Path, content: bytes, reason: str) -> None:
    last = read(path, content)[-1]
    assert isinstance(last, Refused)
    assert last.reasons == (reason,)


def test_an_item_is_read_exactly_as_it_stands(path: Path) -> None:
    content = rb'[{"half": "\ud83d", "whole": "\ud83d\ude00", "large": 123456789012345678901234567890, "f": 0.1}]'
    (value,) = values(read(path, content))
    assert value == {"half": "\ud83d", "whole": "😀", "large": 123456789012345678901234567890, "f": 0.1}


@pytest.mark.parametrize("content", [b"", b"\n \n", b"[]", b"\xef\xbb\xbf"])
def test_an_empty_file_has_nothing(path: Path, content: bytes) -> None:
    assert read(path, content) == []


@pytest.mark.parametrize("content", [b'\xef\xbb\xbf{"a": 1}\n', b'\xef\xbb\xbf[{"a": 1}]'])
def test_a_byte_order_mark_is_passed_over(path: Path, content: bytes) -> None:
    assert values(read(path, content)) == [{"a": 1}]


def test_an_archive_is_recognised(path: Path) -> None:
    (item,) = read(path, b"PK\x03\x04 and so on")
    assert isinstance(item, Refused)
    assert "unpack it" in item.reasons[0]


@SAME_DIRECTORY
@given(content=st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(path: Path, content: bytes) -> None:
    for start in (b"", b"[", b'{"a": ', b'[{"a": 1},'):
        read(path, start + content)


def test_all_of_a_file_is_counted(path: Path) -> None:
    content = b'{"a": 1}\n' * 100_000
    path.write_bytes(content)
    with Source(str(path)) as source:
        assert sum(1 for _ in records(source)) == 100_000
        assert source.consumed == source.size == len(content)
