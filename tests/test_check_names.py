"""Tests for scripts/check_names.py."""

from __future__ import annotations

from pathlib import Path

import check_names
import pytest


@pytest.mark.parametrize(
    "source",
    [
        "found = 1",
        "_found = 1",
        "x, given = 1, 2",
        "for one in []: pass",
        "[1 for one in []]",
        "def search(*, wanted): pass",
        "lambda place: place",
        "with open('x') as told: pass",
        "(most := 1)",
        "try: pass\nexcept OSError as said: pass",
        "match 1:\n    case known: pass",
    ],
)
def test_banned_name_is_reported(source: str) -> None:
    assert len(list(check_names.find_banned_names(source))) == 1


@pytest.mark.parametrize(
    "source", ["message = 1", "for hit in []: pass", "def search(limit): pass", "'found'", "x.own"]
)
def test_descriptive_name_is_accepted(source: str) -> None:
    assert not list(check_names.find_banned_names(source))


def test_report_has_the_line() -> None:
    assert list(check_names.find_banned_names("message = 1\nfound = 2\n")) == [(2, "found")]


def test_setting_with_a_banned_prefix_or_suffix_is_reported() -> None:
    banned = ["NOMEMORY_FORMER_API_KEY", "NOMEMORY_PAGE_SIZE_MAX"]
    assert check_names.find_banned_settings([*banned, "NOMEMORY_MAX_PAGE_SIZE"]) == banned


def test_generated_code_is_not_checked(tmp_path: Path) -> None:
    for name in ("clients/python/nomemory/v1/message_pb2.py", "server/nomemory/server/app.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    assert list(check_names.find_source_files(tmp_path)) == [tmp_path / "server/nomemory/server/app.py"]


def test_tests_are_checked(tmp_path: Path) -> None:
    (tmp_path / "tests/server").mkdir(parents=True)
    (tmp_path / "tests/server/test_reads.py").touch()
    assert list(check_names.find_source_files(tmp_path)) == [tmp_path / "tests/server/test_reads.py"]
