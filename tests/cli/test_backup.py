"""Tests for backup and restore: complete backups, a new epoch after a restore, and rejection of damaged backups."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path

import grpc
import orjson
import pytest
from cli.command_line import PLAIN, Run
from click.testing import CliRunner
from server.fleet import until
from server.test_lost_log import by_meaning, by_words, is_settled, write

from chat_messages import ids, new_message
from nomemory.cli.main import nomemory
from nomemory.server.runtime.secure_files import find_paths_readable_by_others
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from rpc_errors import refusal
from running_server import Server, settings_without_embedder, started

Start = Callable[[Settings], AbstractContextManager[Server]]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup of two messages, and its source directory, which contains two more."""
    folder = tmp_path_factory.mktemp("prepared")
    with started(settings_without_embedder(folder / "data")) as server:
        write(server, "apples", "pears")
        arguments = ("backup", "--data", str(folder / "data"), "--out", str(folder / "backup"))
        assert CliRunner().invoke(nomemory, arguments, env=PLAIN).exit_code == 0
        write(server, "apples", "pears", "figs", "plums")
        assert until(lambda: is_settled(server))
    return folder


@pytest.fixture
def backup(prepared: Path, tmp_path: Path) -> Path:
    """Return a copy of the backup."""
    shutil.copytree(prepared / "backup", tmp_path / "backup")
    return tmp_path / "backup"


@pytest.fixture
def data(prepared: Path, own_settings: Settings) -> Path:
    """Return a copy of the source directory of the backup."""
    shutil.copytree(prepared / "data", own_settings.server.data)
    return own_settings.server.data


def test_backup_is_restored_into_a_new_directory(run: Run, start: Start, backup: Path) -> None:
    result = run("restore", str(backup), "--data", "new")
    assert "restored up to change 2" in result.output
    assert find_paths_readable_by_others(backup) == find_paths_readable_by_others(Path("new")) == []
    with start(settings_without_embedder(Path("new").absolute())) as server:
        token = write(server, "zebras")  # the time of the first message: the id must still be the next in the sequence
        assert sorted(by_words(server, "about", token)) == ["apples", "pears", "zebras"]
        assert by_meaning(server, token) == ["apples", "pears", "zebras"]


def test_restore_replaces_an_existing_log_only_with_replace_option(
    run: Run, start: Start, own_settings: Settings, backup: Path, data: Path
) -> None:
    with start(own_settings) as server:
        former = write(server, "apples")
        for replace in ((), ("--replace",)):
            refused = run("restore", str(backup), "--data", str(data), *replace)
            assert (refused.exit_code, "in use by another server" in refused.output) == (1, True)
            assert "--replace" not in refused.output
    refused = run("restore", str(backup), "--data", str(data))
    assert (refused.exit_code, "--replace" in refused.output) == (1, True)
    assert run("restore", str(backup), "--data", str(data), "--replace").exit_code == 0
    with start(own_settings) as server:
        token = write(server, "zebras")
        assert sorted(by_words(server, "about", token)) == ["apples", "pears", "zebras"]
        assert by_words(server, "figs", token) == []
        assert by_meaning(server, token) == ["apples", "pears", "zebras"]
        with pytest.raises(grpc.RpcError) as error:
            by_words(server, "apples", former)
        assert refusal(error.value).reason == "WRITE_TOKEN_INVALID"


@pytest.mark.parametrize("name", ["log.db", "backup.json"])
def test_damaged_backup_is_not_restored(run: Run, backup: Path, name: str) -> None:
    content = bytearray((backup / name).read_bytes())
    content[len(content) // 2] ^= 0x40
    (backup / name).write_bytes(content)
    result = run("restore", str(backup), "--data", "new")
    assert result.exit_code == 1
    assert "Error: " in result.output
    assert not Path("new").exists()


def test_invalid_key_file_is_not_restored(run: Run, backup: Path, tmp_path: Path) -> None:
    key = backup / "server.key"
    kept = key.rename(tmp_path / "kept.key")
    key.write_bytes(b"abc")
    short = run("restore", str(backup), "--data", "new")
    key.unlink()
    key.symlink_to(kept)
    link = run("restore", str(backup), "--data", "new")
    assert (short.exit_code, f"the key file {key} is invalid" in short.output.replace("\n", " ")) == (1, True)
    assert (link.exit_code, "is a symbolic link" in link.output.replace("\n", " ")) == (1, True)
    assert not Path("new").exists()


def test_failed_restore_leaves_no_log_files(run: Run, backup: Path) -> None:
    with closing(sqlite3.connect(backup / "log.db")) as log:
        log.execute("PRAGMA user_version=999")
    manifest = orjson.loads((backup / "backup.json").read_bytes())
    digest = hashlib.sha256((backup / "log.db").read_bytes()).hexdigest()
    (backup / "backup.json").write_bytes(orjson.dumps(manifest | {"sha256": digest}))
    refused = run("restore", str(backup), "--data", "new")
    assert (refused.exit_code, "schema 999" in refused.output) == (1, True)
    assert not list(Path("new").glob("log*"))


def test_leftover_of_an_interrupted_backup_is_reported(run: Run, data: Path) -> None:
    Path("backup.part").mkdir()
    result = run("backup", "--data", str(data), "--out", "backup")
    assert (result.exit_code, "left over from an interrupted backup: delete it" in result.output) == (1, True)


def test_damaged_log_is_not_backed_up(run: Run, data: Path) -> None:
    log = data / "log.db"
    log.write_bytes(log.read_bytes().replace(b"about apples", b"About apples"))
    result = run("backup", "--data", str(data), "--out", "backup")
    assert (result.exit_code, "is damaged" in result.output) == (1, True)
    assert list(Path().glob("backup*")) == []


def test_backup_during_writes_contains_all_earlier_acknowledged_writes(
    run: Run, start: Start, own_settings: Settings
) -> None:
    acknowledged, stop = list[str](), threading.Event()

    def keep_writing(server: Server) -> None:
        while not stop.is_set():
            batch = [
                new_message("u", f"m{len(acknowledged) + n:06}", "word", ts=len(acknowledged) + n) for n in range(20)
            ]
            server.ingest.WriteMessages(i.WriteMessagesRequest(messages=batch))
            acknowledged.extend(message.message_id for message in batch)

    with start(own_settings) as server:
        writer = threading.Thread(target=keep_writing, args=(server,))
        writer.start()
        assert until(lambda: len(acknowledged) > 200)
        before = len(acknowledged)
        result = run("backup", "--data", str(own_settings.server.data), "--out", "backup")
        stop.set()
        writer.join()
    assert result.exit_code == 0, result.output
    assert run("restore", "backup", "--data", "new").exit_code == 0
    with start(settings_without_embedder(Path("new").absolute())) as server:
        count = server.query.CountMessages(q.CountMessagesRequest(user_id="u")).count
        assert before <= count <= len(acknowledged)
        latest = ids(server.query.ListMessages(q.ListMessagesRequest(user_id="u", page_size=1)).items)
        assert latest == [acknowledged[count - 1]]
