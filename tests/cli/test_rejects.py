"""Tests for the rejects file of an import and its fallback directory."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path

import pytest
from cli.command_line import Run
from client.scripted_server import Scripted

from nomemory.server.faults import Fault, Reason
from running_server import Server

GOOD = '{"user_id": "u", "message_id": "m", "ts": "2024-05-01T08:00:00Z", "role": "user", "content": "x"}\n'
BAD = '{"user_id": "u"}\n'


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use a separate temporary directory for the test."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def file(run: Run) -> Path:  # noqa: ARG001 - it changes the directory
    """Return a file with a rejected message in a directory in which no rejects file can be created."""
    path = Path("chat.jsonl")
    path.write_text(BAD + GOOD)
    Path("chat.jsonl.rejects.jsonl").mkdir()
    return path


def test_rejects_are_written_to_the_temporary_directory_if_the_directory_is_not_writable(
    run: Run, vector_server: Server, file: Path, temporary: Path
) -> None:
    done = run("import", str(file), "--dry-run", "--target", vector_server.target)
    assert done.exit_code == 1, done.output
    (rejects,) = temporary.iterdir()
    assert re.fullmatch(r"chat\.jsonl\..+\.rejects\.jsonl", rejects.name)
    assert str(rejects) in done.output.replace("\n", "")
    assert rejects.stat().st_mode & 0o777 == 0o600
    assert json.loads(rejects.read_text())["line"] == 1
    shown = run("import", str(file), "--dry-run", "--target", vector_server.target, "--json")
    assert Path(json.loads(shown.stdout)["rejects"]).parent == temporary


def test_an_import_without_rejects_needs_no_writable_directory(
    run: Run, vector_server: Server, file: Path, temporary: Path
) -> None:
    file.write_text(GOOD)
    done = run("import", str(file), "--dry-run", "--target", vector_server.target)
    assert (done.exit_code, "rejects" in done.output) == (0, False)
    assert not list(temporary.iterdir())


def test_an_import_that_is_interrupted_names_its_rejects_file(run: Run, script: Scripted) -> None:
    script.will("ImportMessages", Fault(Reason.ERROR_REASON_STORAGE_UNAVAILABLE, "the disk is full"))
    Path("chat.jsonl").write_text(BAD + GOOD)
    done = run("import", "chat.jsonl", "--target", script.target)
    assert done.exit_code == 1
    assert "1 message rejected so far: chat.jsonl.rejects.jsonl\n" in done.output
    assert Path("chat.jsonl.rejects.jsonl").exists()
