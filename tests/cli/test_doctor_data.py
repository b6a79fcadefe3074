"""Tests for the data checks and repairs of `nomemory doctor`."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path

import pytest
from cli.command_line import Run
from cli.test_doctor import NOBODY, checks_by_name
from click.testing import Result
from log.test_message_log import new_message as message
from server.fleet import until
from server.test_damaged_log import flip, list_all
from server.test_lost_log import by_words, is_settled, write

from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.runtime.settings import Settings
from nomemory.server.search.lexical.tantivy.writer import TantivyLexicalWriter
from running_server import Server, settings_without_embedder, started

Start = Callable[[Settings], AbstractContextManager[Server]]
NAMES = ("apples", "pears", "figs")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with indexed messages, left by a stopped server."""
    data = tmp_path_factory.mktemp("written") / "data"
    settings = settings_without_embedder(data)
    with started(settings) as server:
        write(server, *NAMES)
        assert until(lambda: is_settled(server))
    return data


@pytest.fixture
def data(written: Path, own_settings: Settings) -> Path:
    """A copy of the data directory."""
    shutil.copytree(written, own_settings.server.data)
    return own_settings.server.data


@pytest.fixture(autouse=True)
def without_embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the embedder check, because loading and measuring a model takes most of the time."""
    monkeypatch.setenv("NOMEMORY_EMBEDDER", "none")
    monkeypatch.setenv("NOMEMORY_EMBEDDING_DIMENSION", "4")


@pytest.fixture
def doctor(run: Run, data: Path) -> Callable[..., Result]:
    return lambda *options: run("doctor", "--data", str(data), "--target", NOBODY, "--json", *options)


def change(data: Path, statement: str) -> None:
    with closing(sqlite3.connect(data / "log.db", isolation_level=None)) as log:
        log.execute(statement)


def test_undamaged_data_passes_all_checks(doctor: Callable[..., Result]) -> None:
    checks = checks_by_name(doctor())
    names = ("Permissions", "Message log history", "Checksums", "Counts", "Lexical index files")
    assert {name: checks[name]["state"] for name in names} == dict.fromkeys(names, "ok")
    assert "nothing to repair" in doctor("--repair").output


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE users SET messages = 7",
        "DELETE FROM users",
        "INSERT INTO metadata_entries VALUES ('u', x'00', 1, 'gone')",
        "INSERT INTO embeddings VALUES ('u', 'gone', x'00')",
    ],
)
def test_inconsistent_counts_are_repaired(doctor: Callable[..., Result], data: Path, statement: str) -> None:
    change(data, statement)
    before = doctor()
    assert (before.exit_code, checks_by_name(before)["Counts"]["state"]) == (1, "fail")
    repaired = doctor("--repair")
    assert "Repaired the message counts" in repaired.output
    assert checks_by_name(repaired)["Counts"]["state"] == "ok"


def orphan(data: Path) -> None:
    with TantivyLexicalWriter(DataDirectory(data).lexical_index, 15_000_000) as words:
        words.add_version(2_000, message("about ghosts", message_id="ghost", ts_us=1))
        words.commit(words.applied_sequence)


def missing(data: Path) -> None:
    with TantivyLexicalWriter(DataDirectory(data).lexical_index, 15_000_000) as words:
        words.remove_version(2)
        words.commit(words.applied_sequence)


@pytest.mark.parametrize("spoil", [missing, orphan])
def test_inconsistent_lexical_index_is_reported(
    doctor: Callable[..., Result], data: Path, spoil: Callable[[Path], None]
) -> None:
    spoil(data)
    before = doctor()
    assert (before.exit_code, checks_by_name(before)["Lexical index files"]["state"]) == (1, "fail")


def test_inconsistent_lexical_index_is_rebuilt(
    doctor: Callable[..., Result], data: Path, start: Start, own_settings: Settings
) -> None:
    missing(data)
    orphan(data)
    assert "rebuilt" in doctor("--repair").output
    with start(own_settings) as server:
        assert until(lambda: is_settled(server))
        assert sorted(by_words(server, "about")) == sorted(NAMES)
    assert checks_by_name(doctor())["Lexical index files"]["state"] == "ok"


def test_missing_vectors_are_reported(doctor: Callable[..., Result], data: Path) -> None:
    assert checks_by_name(doctor())["Vector index files"]["state"] == "ok"
    for shard in (data / "vectors").glob("*/edge"):
        shutil.rmtree(shard)
    vectors = checks_by_name(doctor())["Vector index files"]
    assert (vectors["state"], "3 of 3 messages" in vectors["finding"]) == ("fail", True)


def test_damaged_messages_are_deleted_only_on_request(
    doctor: Callable[..., Result], data: Path, start: Start, own_settings: Settings
) -> None:
    flip(data / "log.db", b"about pears")
    for options in ((), ("--repair",)):
        result = doctor(*options)
        assert result.exit_code == 1
        assert "sequences 2" in result.output
    deleted = doctor("--delete-damaged")
    assert "Deleted 1 damaged messages" in deleted.output
    assert checks_by_name(deleted)["Checksums"]["state"] == "ok"
    with start(own_settings) as server:
        assert list_all(server, "u") == ["figs", "apples"]


def test_lost_log_is_reported_and_accepted(
    doctor: Callable[..., Result], data: Path, start: Start, own_settings: Settings
) -> None:
    for path in data.glob("log.db*"):
        path.unlink()
    result = doctor()
    assert result.exit_code == 1
    assert "it is missing" in checks_by_name(result)["Message log history"]["finding"]
    assert "accepted" in doctor("--accept-loss").output
    with start(own_settings) as server:
        token = write(server, "zebras")
        assert by_words(server, "zebras", token) == ["zebras"]


def test_doctor_does_not_repair_data_of_a_running_server(run: Run, vector_server: Server) -> None:
    for option in ("--repair", "--accept-loss", "--delete-damaged"):
        result = run("doctor", "--data", str(vector_server.settings.server.data), option)
        assert (result.exit_code, "in use by another server" in result.output) == (1, True)


def test_doctor_reports_the_damaged_log_of_a_running_server(
    run: Run, data: Path, start: Start, own_settings: Settings
) -> None:
    flip(data / "log.db", b"about pears")
    with start(own_settings) as server:

        def is_damage_reported() -> bool:
            result = run("doctor", "--data", str(data), "--target", server.target, "--json")
            return result.exit_code == 1 and checks_by_name(result)["Server message log"]["state"] == "fail"

        assert until(is_damage_reported)
