"""Tests for the permissions and errors of the data directory."""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack
from pathlib import Path

import grpc
import pytest
from server.fleet import command, environment

from chat_messages import new_message
from nomemory.server.runtime.data_directory import DataDirectory, DataDirectoryUnusableError
from nomemory.server.runtime.secure_files import find_paths_readable_by_others
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1.ingest_service_pb2_grpc import IngestServiceStub
from running_server import address_in, started


def start(stack: ExitStack, data: Path, **more: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        command(), env=environment(data, **more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        umask=0o022,
    )  # fmt: skip
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


def test_files_of_a_server_are_private(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "lexical-v3").mkdir(parents=True)  # as an earlier version created it
    (data / "lexical-v3" / "note").touch(0o644)
    with ExitStack() as stack:
        process = start(stack, data)
        assert process.stdout
        channel = stack.enter_context(grpc.insecure_channel(address_in(process.stdout.readline())))
        written = i.WriteMessagesRequest(messages=[new_message("u", "m", "hello", embedding=[1, 0, 0, 0])])
        IngestServiceStub(channel).WriteMessages(written)
        assert (data / "log.db-wal").exists()
        assert list(data.glob("vectors/*/vectors.db"))
        assert find_paths_readable_by_others(data) == []
        process.terminate()
        process.wait(30)
    assert find_paths_readable_by_others(data) == []


@pytest.mark.parametrize("path", ["/dev/null/data", "/proc/nomemory"])
def test_uncreatable_data_directory_is_reported(own_settings: Settings, path: str) -> None:
    with (
        pytest.raises(DataDirectoryUnusableError, match=f"the data directory {path} cannot be written"),
        started(own_settings.copy_with_changes(data=Path(path))),
    ):
        pass


def test_low_disk_space_is_reported(own_settings: Settings) -> None:
    with (
        pytest.raises(DataDirectoryUnusableError, match="Free disk space"),
        started(own_settings.copy_with_changes(min_free_disk_bytes=10**18)),
    ):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
@pytest.mark.parametrize("free_bytes", [0, 100_000])
def test_full_disk_is_reported(tmp_path: Path, free_bytes: int) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    mounted = subprocess.run(mount, check=False, capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting is not allowed here")
    with ExitStack() as stack:
        stack.callback(subprocess.run, ["umount", "-l", str(disk)], check=True)
        (disk / "data").mkdir()
        (disk / "filler").write_bytes(bytes(2**20 - free_bytes - 4096 * 2))
        process = start(stack, disk / "data", NOMEMORY_MIN_FREE_DISK_BYTES="0")
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "Error: " in errors
    assert "Traceback" not in errors


def test_shared_key_is_never_generated(own_settings: Settings, tmp_path: Path) -> None:
    settings = own_settings.copy_with_changes(key_file=tmp_path / "shared.key")
    with pytest.raises(DataDirectoryUnusableError, match="NOMEMORY_KEY_FILE"):
        DataDirectory.from_settings(settings)
    (tmp_path / "shared.key").write_bytes(bytes(32))
    assert DataDirectory.from_settings(settings).token_key == tmp_path / "shared.key"
