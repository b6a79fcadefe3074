"""Tests for the checks of `nomemory doctor` and their advice."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from cli.command_line import Run
from click.testing import Result
from client.scripted_server import Scripted

from nomemory.cli.console import create_stderr_console, create_stdout_console
from nomemory.cli.doctor import installation
from nomemory.cli.doctor.installation import check_embedder, check_sqlite
from nomemory.cli.doctor.server import check_version
from nomemory.cli.output import CheckResult, Diagnosis
from nomemory.cli.text_output import TextOutput
from nomemory.server import __version__
from nomemory.server.api.admission.read_admission import ReadAdmission
from nomemory.server.api.service import Service
from nomemory.server.api.services.server_service import ServerService
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.wiring.services import make_services
from running_server import Server

NOBODY = "127.0.0.1:9"


@pytest.fixture
def run(run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `nomemory` without an embedder, because each run would load its model."""
    monkeypatch.setenv("NOMEMORY_EMBEDDER", "none")
    return run


def checks_by_name(result: Result) -> dict[str, dict[str, Any]]:
    checks = [json.loads(line) for line in result.stdout.splitlines()]
    return {check["check"]: check for check in checks}


def test_doctor_passes_for_a_running_server(run: Run, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOMEMORY_EMBEDDER")
    result = run("doctor", "--data", str(server.settings.server.data), "--target", server.target, "--json")
    checks = checks_by_name(result)
    assert result.exit_code == 0, result.stdout
    assert {check["state"] for check in checks.values()} <= {"ok", "warn"}
    assert {"SQLite", "Data directory", "Disk", "Checksums", "Embedder", "Server"} < set(checks)
    assert server.target in checks["Server"]["finding"]
    assert checks["Server version"] == checks["Server version"] | {"state": "ok", "finding": __version__}
    assert checks["Lexical index"]["state"] == "ok"


def test_server_without_an_embedder_has_no_vector_index(run: Run, vector_server: Server) -> None:
    checks = checks_by_name(run("doctor", "--target", vector_server.target, "--json"))
    assert checks["Lexical index"]["state"] == "ok"
    assert "Vector index" not in checks


def test_doctor_passes_for_a_recall_only_server(
    run: Run, start: Callable[[Settings], AbstractContextManager[Server]], own_settings: Settings, vector_server: Server
) -> None:
    with start(own_settings.copy_with_changes(recall_upstream=vector_server.target)) as server:
        result = run("doctor", "--target", server.target, "--json")
    checks = checks_by_name(result)
    assert result.exit_code == 0, result.stdout
    assert checks["Server"]["state"] == "ok"
    assert "Lexical index" not in checks


@pytest.mark.parametrize(
    ("server", "client", "state"),
    [("0.2.0", "0.2.0", "ok"), ("0.2.9", "0.2.0", "ok"), ("0.3.0", "0.2.0", "warn"), ("1.2.0", "0.2.0", "warn")],
)
def test_different_contract_version_is_a_warning(server: str, client: str, state: str) -> None:
    check = check_version(server, client)
    assert check.state == state
    assert server in check.finding
    assert bool(check.advice) == (state == "warn")


def test_server_without_version_information_is_a_failure(
    run: Run,
    start: Callable[[Settings], AbstractContextManager[Server]],
    own_settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def make_services_without_server_info(*arguments: Any) -> tuple[list[Service], ReadAdmission]:  # noqa: ANN401 - handed on
        services, reads = await make_services(*arguments)
        return [service for service in services if not isinstance(service, ServerService)], reads

    monkeypatch.setattr("nomemory.server.runtime.app.make_services", make_services_without_server_info)
    with start(own_settings) as server:
        result = run("doctor", "--target", server.target, "--json")
    assert result.exit_code == 1
    assert "not a NoMemory server of this version" in checks_by_name(result)["Server status"]["finding"]


def test_stopped_server_is_a_warning(run: Run) -> None:
    result = run("doctor", "--data", "not-there-yet", "--target", NOBODY, "--json")
    checks = checks_by_name(result)
    assert result.exit_code == 0
    assert checks["Server"]["state"] == "warn"
    assert "nomemory serve" in checks["Server"]["advice"]
    assert not Path("not-there-yet").exists()


def test_doctor_fails_if_the_target_is_not_a_nomemory_server(run: Run, script: Scripted) -> None:
    result = run("doctor", "--target", script.target, "--json")
    assert result.exit_code == 1
    assert checks_by_name(result)["Server"]["state"] == "fail"


def test_damaged_log_is_a_failure(run: Run) -> None:
    Path("data").mkdir()
    Path("data/log.db").write_bytes(b"SQLite format 3\x00" + b"damaged" * 1_000)
    result = run("doctor", "--data", "data", "--target", NOBODY, "--json")
    assert result.exit_code == 1
    assert checks_by_name(result)["Message log history"]["state"] == "fail"


def test_data_directory_that_is_a_file_is_a_failure(run: Run) -> None:
    Path("data").touch()
    result = run("doctor", "--data", "data", "--target", NOBODY, "--json")
    assert result.exit_code == 1
    assert "--data" in checks_by_name(result)["Data directory"]["advice"]


def test_doctor_leaves_no_files_behind(run: Run) -> None:
    Path("data").mkdir()
    run("doctor", "--data", "data", "--target", NOBODY)
    assert list(Path().iterdir()) == [Path("data")]
    assert list(Path("data").iterdir()) == []


def test_unsupported_sqlite_version_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 36, 0))
    assert check_sqlite().state == "fail"


def test_little_free_space_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    states = []
    for free in (10**6, 5 * 10**8, 10**12):
        monkeypatch.setattr("shutil.disk_usage", lambda _, free=free: type("Usage", (), {"free": free}))
        states += [check.state for check in installation.check_storage(tmp_path) if check.name == "Disk"]
    assert states == ["fail", "warn", "ok"]


def test_missing_embedder_is_a_warning_and_a_remote_one_is_not_called() -> None:
    assert check_embedder(Settings.from_environment(embedder="none")).state == "warn"
    assert check_embedder(Settings.from_environment(embedder="openai")).state == "skip"


def test_unwritable_model_cache_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def describe_without_loading(_settings: Settings) -> str:
        return "local: a model"

    # Without a cache, the model takes seconds to load; tests/embedding/test_onnx.py checks that it loads.
    monkeypatch.setattr("nomemory.cli.doctor.installation._describe_local_model", describe_without_loading)
    (tmp_path / "file").touch()
    check = check_embedder(
        Settings.from_environment(embedder="local", embedding_model_cache_dir=str(tmp_path / "file"))
    )
    assert check.state == "warn"
    assert "converted at every start" in check.finding
    assert "NOMEMORY_EMBEDDING_MODEL_CACHE_DIR" in check.advice


def test_doctor_output_matches_the_golden_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, golden: Callable[[str, str], None]
) -> None:
    monkeypatch.setenv("COLUMNS", "72")
    checks = [
        CheckResult("Python", "ok", "3.11.9"),
        CheckResult("Disk", "warn", "0.7 GB free", "Make room soon: a full disk refuses writes."),
        CheckResult("Message log", "fail", "database disk image is malformed", "Restore data/log.db from a backup."),
        CheckResult("Embedder", "skip", "an OpenAI-compatible endpoint, which costs to ask"),
    ]
    TextOutput(create_stdout_console(), create_stderr_console()).show(Diagnosis(checks))
    golden("doctor.txt", capsys.readouterr().out)
