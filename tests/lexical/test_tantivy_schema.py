"""The files of an index by words."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from nomemory.server.lexical.tantivy.schema import discard_index, open_index


def test_an_index_is_deleted_although_a_reader_puts_a_lock_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "lexical"
    open_index(directory)
    times, rmdir = iter(range(3)), os.rmdir

    def after_a_lock(path: Any, **options: Any) -> None:  # noqa: ANN401 - as `os.rmdir`
        if next(times, None) is not None:
            (directory / ".tantivy-meta.lock").touch()
        rmdir(path, **options)

    monkeypatch.setattr(os, "rmdir", after_a_lock)
    discard_index(directory)
    assert not directory.exists()


def test_one_that_cannot_be_deleted_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "lexical"
    open_index(directory)

    def refuse(_path: object, **_options: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "rmdir", refuse)
    with pytest.raises(PermissionError):
        discard_index(directory)
