"""Tests for commands of SQLite logs with a PostgreSQL log, and for the database checks of the doctor."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from nomemory.cli.main import nomemory


def _run(*arguments: str, url: str) -> Result:
    environment = {"NOMEMORY_DATABASE_URL": url, "NOMEMORY_TARGET": "127.0.0.1:1", "NOMEMORY_EMBEDDER": "none"}
    return CliRunner(env=environment).invoke(nomemory, arguments)


@pytest.mark.parametrize(
    "arguments",
    [("backup", "--out", "{data}/copy"), ("restore", "{data}"), ("doctor", "--repair"), ("doctor", "--delete-damaged")],
)
def test_file_command_rejects_a_postgresql_log(arguments: tuple[str, ...], tmp_path: Path) -> None:
    command_arguments = [argument.format(data=tmp_path) for argument in arguments]
    done = _run(*command_arguments, "--data", str(tmp_path), url="postgresql://nomemory:secret@127.0.0.1:1/none")
    assert done.exit_code == 1
    assert "the message log is in PostgreSQL (NOMEMORY_DATABASE_URL)" in done.output
    assert "secret" not in done.output


def test_doctor_checks_the_database(postgres_url: str, tmp_path: Path) -> None:
    done = _run("doctor", "--data", str(tmp_path), url=postgres_url)
    assert "in PostgreSQL, up to change 0" in done.output
    away = _run("doctor", "--data", str(tmp_path), url="postgresql://nomemory:secret@127.0.0.1:1/none")
    assert "postgresql" in away.output.lower()
    assert "Connect call failed" in away.output
    assert "secret" not in away.output


def test_accepting_a_loss_begins_a_new_epoch(postgres_url: str, tmp_path: Path) -> None:
    done = _run("doctor", "--accept-loss", "--data", str(tmp_path), url=postgres_url)
    assert "Loss accepted" in done.output
    assert (tmp_path / "log.json").exists()
