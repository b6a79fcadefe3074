"""Tests for the application of erasures to a restored backup."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path

import orjson
import pytest
from cli.command_line import PLAIN, Run
from click.testing import CliRunner
from server.fleet import connected, fleet

from chat_messages import ids, new_message
from nomemory.cli.main import nomemory
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import ingest_service_pb2_grpc
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import query_service_pb2 as q
from running_server import Server, settings_without_embedder, started

Start = Callable[[Settings], AbstractContextManager[Server]]

KEPT = {"anna": [], "ben": ["b3"], "carl": ["c1"]}
"""The messages that are not erased, by user."""


def write(server: Server, *messages: m.ChatMessage) -> None:
    server.ingest.WriteMessages(i.WriteMessagesRequest(messages=messages))


def listed(server: Server, user: str) -> list[str]:
    return ids(server.query.ListMessages(q.ListMessagesRequest(user_id=user, page_size=100)).items)


def fill(server: Server) -> None:
    """Write the messages that the backup contains."""
    write(
        server,
        *(new_message("anna", f"a{n}", f"the secret of anna {n}", ts=n) for n in range(3)),
        new_message("ben", "b1", "a word of ben", ts=1),
        new_message("ben", "b2", "a secret of ben", ts=2, conversation_id="private"),
        new_message("ben", "b3", "a plan of ben", ts=3),
        new_message("carl", "c1", "a word of carl", ts=1),
    )


def erase_some(server: Server) -> None:
    server.ingest.EraseUser(i.EraseUserRequest(user_id="anna"))
    server.ingest.DeleteMessages(i.DeleteMessagesRequest(user_id="ben", message_ids=["b1"]))
    private = i.DeleteMessagesRequest(user_id="ben")
    private.filter.conversation_id = "private"
    assert server.ingest.DeleteMessages(private).deleted == 1


def back_up(folder: Path) -> None:
    """Back up the directory `data` of a folder."""
    arguments = ("backup", "--data", str(folder / "data"), "--out", str(folder / "backup"))
    assert CliRunner().invoke(nomemory, arguments, env=PLAIN).exit_code == 0


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory and its backup from before the erasures that were made in the directory."""
    folder = tmp_path_factory.mktemp("prepared")
    with started(settings_without_embedder(folder / "data")) as server:
        fill(server)
        back_up(folder)
        erase_some(server)
    return folder


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a server that was killed after an erasure, and its backup from before the erasure."""
    folder = tmp_path_factory.mktemp("killed")
    with fleet(folder / "data") as server, connected(server.target) as channel:
        ingest = ingest_service_pb2_grpc.IngestServiceStub(channel)
        ingest.WriteMessages(i.WriteMessagesRequest(messages=[new_message("u", "m", "word")]))
        back_up(folder)
        ingest.EraseUser(i.EraseUserRequest(user_id="u"))
        server.process.send_signal(signal.SIGKILL)
        server.process.wait(10)
    return folder


@pytest.fixture
def data(prepared: Path, own_settings: Settings) -> str:
    """Return a copy of the directory in which the erasures were made."""
    shutil.copytree(prepared / "data", own_settings.server.data)
    return str(own_settings.server.data)


@pytest.fixture
def backup(prepared: Path) -> Path:
    """Return the backup from before the erasures."""
    return prepared / "backup"


@pytest.fixture
def register(run: Run, data: str) -> Path:
    """Return the exported register."""
    exported = run("erasures", "export", "erasures.jsonl", "--data", data)
    assert exported.output == "erasures.jsonl: 3 erasures.\n"
    return Path("erasures.jsonl").absolute()


def test_a_restore_applies_the_erasures_of_the_log_that_it_replaces(
    run: Run, start: Start, own_settings: Settings, backup: Path, data: str
) -> None:
    for _ in range(2):  # the register survives the first restore
        restored = run("restore", str(backup), "--data", data, "--replace")
        assert restored.exit_code == 0, restored.output
        assert "Erasures of the replaced message log: 3 erasures; deleted 5 messages" in restored.output
        assert "all data of 1 user." in restored.output
        assert "not known" not in restored.output
        content = b"".join(path.read_bytes() for path in Path(data).glob("log.db*"))
        assert b"a word of carl" in content
        assert b"secret" not in content
    with start(own_settings) as server:
        assert {user: listed(server, user) for user in KEPT} == KEPT
        message_ids = server.query.LexicalSearch(q.LexicalSearchRequest(user_id="ben", query_text="secret"))
        assert not message_ids.items


def test_a_restore_without_a_register_reports_unknown_erasures(run: Run, start: Start, backup: Path) -> None:
    restored = run("restore", str(backup), "--data", "new")
    assert restored.exit_code == 0
    taken = orjson.loads((backup / "backup.json").read_bytes())["taken"]
    assert taken
    for part in ("Erasures after the backup (", "are not known", "nomemory erasures apply FILE --data new"):
        assert part in restored.output.replace("\n", " ")
    with start(settings_without_embedder(Path("new").absolute())) as server:
        assert len(listed(server, "anna")) == 3


def test_a_restore_applies_an_exported_register(run: Run, start: Start, backup: Path, register: Path) -> None:
    restored = run("restore", str(backup), "--data", "new", "--erasures", str(register))
    assert restored.exit_code == 0, restored.output
    assert f"Erasures of {register}: 3 erasures; deleted 5 messages" in restored.output
    assert "The register was exported at " in restored.output
    assert "replaced after the backup is readable again" in restored.output.replace("\n", " ")
    with start(settings_without_embedder(Path("new").absolute())) as server:
        assert {user: listed(server, user) for user in KEPT} == KEPT
    again = run("erasures", "export", "again.jsonl", "--data", "new")
    assert again.output == "again.jsonl: 3 erasures.\n"


def test_an_applied_register_keeps_messages_that_were_written_after_the_erasure(
    run: Run, start: Start, backup: Path, register: Path
) -> None:
    assert run("restore", str(backup), "--data", "new").exit_code == 0
    with start(settings_without_embedder(Path("new").absolute())) as server:
        write(server, new_message("anna", "a9", "anna is back", ts=1))
        write(server, new_message("ben", "b4", "another word of ben", ts=4))
        refused = run("erasures", "apply", str(register), "--data", "new")
        assert (refused.exit_code, "in use by another server" in refused.output) == (1, True)
        server.ingest.DeleteMessages(i.DeleteMessagesRequest(user_id="ben", message_ids=["b1"]))
        write(server, new_message("ben", "b1", "a new word of ben", ts=1))
    for deleted in (4, 0):
        applied = run("erasures", "apply", str(register), "--data", "new")
        assert applied.exit_code == 0, applied.output
        assert f"3 erasures; deleted {deleted} messages" in applied.output
    with start(settings_without_embedder(Path("new").absolute())) as server:
        assert listed(server, "anna") == ["a9"]
        assert sorted(listed(server, "ben")) == ["b1", "b3", "b4"]


def test_a_register_contains_no_ids_and_no_content(register: Path) -> None:
    content = register.read_text()
    for text in ("anna", "ben", "b1", "b2", "secret", "private"):
        assert f'"{text}"' not in content
    assert "secret" not in content
    kinds = sorted(orjson.loads(line)["kind"] for line in content.splitlines()[1:-1])
    assert kinds == ["message", "message", "user"]


def test_unusable_register_is_rejected_and_nothing_is_restored(
    run: Run, backup: Path, killed: Path, register: Path, tmp_path: Path
) -> None:
    shutil.copytree(killed / "data", tmp_path / "other")
    assert run("erasures", "export", "other.jsonl", "--data", "other").exit_code == 0
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_bytes(register.read_bytes()[:-30])
    for path, reason in ((Path("other.jsonl"), "the register of another message log"), (damaged, "is damaged")):
        refused = run("restore", str(backup), "--data", "new", "--erasures", str(path))
        assert (refused.exit_code, reason in refused.output.replace("\n", " ")) == (1, True), refused.output
        assert not list(Path("new").glob("log*"))
    refused = run("erasures", "apply", str(register), "--data", "other")
    assert (refused.exit_code, "another message log" in refused.output) == (1, True)
    refused = run("erasures", "export", "none.jsonl", "--data", "missing")
    assert (refused.exit_code, "there is no message log in missing" in refused.output) == (1, True)


def test_a_damaged_log_is_replaced_only_with_another_register_or_on_request(
    run: Run, start: Start, own_settings: Settings, backup: Path, register: Path, data: str
) -> None:
    log = Path(data) / "log.db"
    log.write_bytes(b"damaged" + log.read_bytes()[7:])
    refused = run("restore", str(backup), "--data", data, "--replace")
    assert refused.exit_code == 1
    assert "--ignore-existing-erasures" in refused.output
    restored = run("restore", str(backup), "--data", data, "--replace", "--erasures", str(register))
    assert restored.exit_code == 0, restored.output
    with start(own_settings) as server:
        assert listed(server, "anna") == []
    log.write_bytes(b"damaged" + log.read_bytes()[7:])
    ignored = run("restore", str(backup), "--data", data, "--replace", "--ignore-existing-erasures")
    assert (ignored.exit_code, "are not known" in ignored.output) == (0, True)


def test_copied_log_requires_a_new_epoch_first(
    run: Run,
    start: Start,
    own_settings: Settings,
    backup: Path,
    register: Path,
    data: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NOMEMORY_EMBEDDER", "none")  # the doctor need not load the model
    for path in Path(data).glob("log.db*"):
        path.unlink()
    (Path(data) / "log.db").write_bytes((backup / "log.db").read_bytes())
    refused = run("erasures", "apply", str(register), "--data", data)
    assert (refused.exit_code, "doctor --accept-loss" in refused.output.replace("\n", " ")) == (1, True)
    run("doctor", "--data", data, "--accept-loss")
    assert run("erasures", "apply", str(register), "--data", data).exit_code == 0
    with start(own_settings) as server:
        assert {user: listed(server, user) for user in KEPT} == KEPT


def test_concurrent_erasures_are_all_registered_once(run: Run, start: Start, own_settings: Settings) -> None:
    def erase(server: Server, number: int) -> None:
        write(server, new_message(f"user{number}", "m", "word"))
        for _ in range(2):
            server.ingest.EraseUser(i.EraseUserRequest(user_id=f"user{number}"))

    with start(own_settings) as server:
        threads = [threading.Thread(target=erase, args=(server, number)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        exported = run("erasures", "export", "erasures.jsonl", "--data", "data")  # while the server runs
    assert exported.output == "erasures.jsonl: 8 erasures.\n"


def test_an_acknowledged_erasure_is_registered_when_the_server_is_killed(
    run: Run, killed: Path, tmp_path: Path
) -> None:
    shutil.copytree(killed / "data", tmp_path / "data")
    exported = run("erasures", "export", "erasures.jsonl", "--data", "data")
    assert exported.output == "erasures.jsonl: 1 erasure.\n"


def test_killed_restore_can_be_repeated(run: Run, backup: Path, data: str) -> None:
    """A killed restore leaves a copy of the backup; the log and its register are the former ones."""
    (Path(data) / "log.db.new").write_bytes((backup / "log.db").read_bytes())
    restored = run("restore", str(backup), "--data", data, "--replace")
    assert (restored.exit_code, "deleted 5 messages" in restored.output) == (0, True)
    with closing(sqlite3.connect(Path(data) / "log.db")) as log:
        assert log.execute("SELECT count(*) FROM messages").fetchone() == (2,)


def test_restore_that_fails_before_it_installs_the_log_loses_no_erasure_of_a_killed_server(
    run: Run, killed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(killed / "data", tmp_path / "data")
    backup = str(killed / "backup")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", _fail_to_rename)
        assert run("restore", backup, "--data", "data", "--replace").exit_code == 1
    restored = run("restore", backup, "--data", "data", "--replace")
    assert (restored.exit_code, "deleted 1 message" in restored.output) == (0, True)


def _fail_to_rename(path: Path, _target: Path) -> None:
    raise OSError(28, "No space left on device", str(path))
